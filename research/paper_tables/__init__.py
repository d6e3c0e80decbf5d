"""The paper's tables as data, and the way from nothing to filled tables."""
