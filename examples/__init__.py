"""Examples that run, one file each."""
