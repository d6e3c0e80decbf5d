"""List the installed models: name, size, licence, scores and folder. The first is the default.

Models are part of densevid or lie in the folders of the environment variable DENSEVID_MODELS.

Examples:
  densevid models                                  (all of them)
  densevid caption video.mp4 --model NAME
  DENSEVID_MODELS=~/models densevid models
"""

from __future__ import annotations

import argparse

from densevid.errors import InputError, one_line, printable, report
from densevid.pipeline.model_registry import (
    HOW_TO_GET_ONE,
    VARIABLE,
    InstalledModel,
    installed_models,
    missing_places,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no flags."""


def run(args: argparse.Namespace) -> int:
    """Print the installed models."""
    models = installed_models()
    if not models:
        print(f"no model is installed; {HOW_TO_GET_ONE}")
    for number, model in enumerate(models):
        print(_described(model, is_default=number == 0))
    for place in missing_places():
        report(f"{VARIABLE} names {place}, which holds no model")
    return 0


def _described(model: InstalledModel, *, is_default: bool) -> str:
    lines = [f"{model.name}{' (default)' if is_default else ''}, {model.size / 1e6:.1f} MB"]
    lines += [f"  {line}" for line in _scores(model)]
    lines += [f"  licence: {model.licence or 'not given in its model card'}", f"  {model.folder}"]
    return "\n".join(map(printable, lines))


def _scores(model: InstalledModel) -> list[str]:
    """The scores of a model, one line each; a scores file that cannot be read does not stop the list."""
    try:
        return [
            f"{title}: {', '.join(f'{metric} {value:.4g}' for metric, value in numbers.items())}"
            for title, numbers in model.scores.items()
        ]
    except InputError as error:
        return [f"scores: {one_line(error)}"]
