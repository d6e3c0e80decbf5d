"""Turn the authors' released weights into a densevid model folder.

The settings are the preset's with `model.compat = "released"` and the release's inference; `--set` overrides them.

  densevid import-released anet-2L-e2e-mask.pth --vocabulary words.txt --preset activitynet --out models/released
  densevid import-released yc2-2L-mask.t7 --vocabulary words.json --preset youcook2 \\
      --set 'model.mask="discrete"' --out models/yc2-discrete
"""

from __future__ import annotations

import argparse
from pathlib import Path

from densevid.errors import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("weights", type=Path, help="the release's state_dict, .t7 or .pth")
    parser.add_argument(
        "--vocabulary", type=Path, required=True, metavar="WORDS", help="one word a line in id order, or a JSON list"
    )
    parser.add_argument("--preset", required=True, choices=["activitynet", "youcook2"], help="which of the two models")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL_DIR", help="the model folder to write")


def run(arguments: argparse.Namespace) -> None:
    """Import and save."""
    from densevid.checkpoint import require_replaceable, save_model
    from densevid.import_released import import_released
    from densevid.io import provenance

    require_replaceable(arguments.out)
    loaded = import_released(arguments.weights, arguments.vocabulary, arguments.preset, arguments.set, report)
    inputs = [arguments.weights, arguments.vocabulary]
    save_model(arguments.out, loaded, provenance(config_hash=loaded.config.hash, inputs=inputs))
    parameters = sum(parameter.numel() for parameter in loaded.model.parameters())
    print(f"{arguments.out}: {parameters / 1e6:.1f} million parameters, {len(loaded.vocabulary):,} words")
