"""The settings: `schema` declares them, `loading` reads files and flags into them."""

from __future__ import annotations

from densevid.config.loading import Config, load_config, presets
from densevid.config.schema import ACTIVITYNET_KERNELS, FeaturesConfig, InferenceConfig, ModelConfig, TrainingConfig

__all__ = [
    "ACTIVITYNET_KERNELS",
    "Config",
    "FeaturesConfig",
    "InferenceConfig",
    "ModelConfig",
    "TrainingConfig",
    "load_config",
    "presets",
]
