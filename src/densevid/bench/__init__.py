"""Plain versions that ours is timed against; they live here and nowhere else."""
