"""Tracks and annotations become batches: feature sources, annotation files, the vocabulary, samples."""
