"""What densevid is timed against: plain versions of its parts live here and nowhere else."""
