"""A trained model and a feature track become events."""
