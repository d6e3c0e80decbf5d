"""List the installed models: name, size, licence, scores and folder. The first is the one used by default.

Models come with densevid, or lie in the folders that the variable DENSEVID_MODELS names.

Examples:
  densevid models                                  (all of them)
  densevid caption video.mp4 --model NAME
  DENSEVID_MODELS=~/models densevid models
"""

from __future__ import annotations

import argparse

from densevid.captioning.installed_models import HOW_TO_GET_ONE, InstalledModel, installed_models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(args: argparse.Namespace) -> int:
    """Print them."""
    models = installed_models()
    if not models:
        print(f"no model is installed; {HOW_TO_GET_ONE}")
    for number, model in enumerate(models):
        print(_described(model, is_default=number == 0))
    return 0


def _described(model: InstalledModel, *, is_default: bool) -> str:
    lines = [f"{model.name}{' (default)' if is_default else ''}, {model.size / 1e6:.1f} MB"]
    lines += [
        f"  {title}: {', '.join(f'{metric} {value:.4g}' for metric, value in numbers.items())}"
        for title, numbers in model.scores.items()
    ]
    lines += [f"  licence: {model.licence or 'not said in its model card'}", f"  {model.folder}"]
    return "\n".join(lines)
