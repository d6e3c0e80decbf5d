"""The official protocols, one module each."""
