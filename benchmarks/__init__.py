"""What is timed against what, in one run."""
