"""Tracks and annotations become batches."""
