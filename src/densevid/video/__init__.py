"""From a video file to a feature track: files, frames at exact times, networks, and many videos at once."""
