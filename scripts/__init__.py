"""Tools for whoever works on densevid; run from a checkout."""
