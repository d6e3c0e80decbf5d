"""A video file becomes one result and its files: models by name, cache, inputs, outputs."""
