"""What densevid costs: the plain versions that ours is timed against live here and nowhere else."""
