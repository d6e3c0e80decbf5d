"""Fitting after training: calibration, word prior, actionness."""
