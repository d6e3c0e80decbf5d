"""From a video file to a feature track: containers, frames at exact times, backbones, and many videos at once."""
