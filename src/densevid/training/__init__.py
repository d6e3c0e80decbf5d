"""Targets, losses and the loop that learns."""
