"""A video file becomes captions in files that people use: models by name, features from a cache, events, outputs."""
