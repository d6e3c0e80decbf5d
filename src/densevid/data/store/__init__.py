"""The feature store: a folder that many processes write at once and any number read, memory-mapped."""
