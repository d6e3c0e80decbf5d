"""The trivial baselines that stand beside every result."""
