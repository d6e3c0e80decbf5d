"""How the model that comes with densevid is made and measured."""
