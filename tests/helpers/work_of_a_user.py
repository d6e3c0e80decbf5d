"""What a user does with a tiny model, as numbers: train, predict, caption by every kind of model.

    python -m helpers.work_of_a_user FOLDER

writes FOLDER/work.json; `tests/test_without_kernels.py` runs it on a package without `kernels/`.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from densevid.cli import main
from densevid.inference.captioner import Captioner
from helpers.random_models import random_model, random_track
from helpers.tiny_run import settings, train_here, write_tiny_data

VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gated mask": ({}, {}),
    "learned mask with a floor": ({"mask": "learned"}, {"mask_floor": 0.3}),
    "discrete mask": ({"mask": "discrete"}, {}),
    "released": ({"compat": "released"}, {"min_before_suppression": 20}),
    "beam search": ({}, {"beam": 3, "no_repeat": 2, "mbr_weight": 0.8}),
    "beam search with a word prior": ({}, {"beam": 4, "mbr_weight": 0.8, "word_prior_weight": 3.0}),
    "recurrent": ({"encoder": "bi-lstm", "decoder": "lstm"}, {"beam": 2}),
    "masked encoding": ({"focus": "mask"}, {}),
    "full convolutions": ({"proposal_head": "procnets"}, {}),
}
TRACKS = [random_track(steps, steps) for steps in (40, 13, 29, 40, 1, 31)]


def captions(variant: str) -> list[dict[str, Any]]:
    """The events of a few videos that share a batch, and of given spans."""
    captioner = Captioner(random_model(*VARIANTS[variant]))
    found = captioner.caption_many(TRACKS)
    given = captioner.caption_segments_many([(track, [(0.0, 20.0), (3.2, 4.1)]) for track in TRACKS])
    return [as_table(events) for each in (found, given) for events in each]


def as_table(events: Any) -> dict[str, Any]:
    return {
        "sentences": [event.sentence for event in events],
        "numbers": [(event.start, event.end, event.score) for event in events],
    }


def trained(folder: Path) -> dict[str, Any]:
    """The events of a video in the predictions of a model that was trained for an epoch."""
    data = write_tiny_data(folder / "data")
    assert train_here(data, folder / "run", *settings("training.epochs=1")) == 0
    model, out = folder / "run" / "model", folder / "events.json"
    assert main(["predict", "--model", str(model), "--features", str(data / "val"), "--out", str(out)]) == 0
    results = json.loads(out.read_text())["results"]
    rows = [row for video in sorted(results) for row in results[video]]
    return {
        "sentences": [row["sentence"] for row in rows],
        "numbers": [(*row["timestamp"], row.get("score", 0.0)) for row in rows],
    }


def work(folder: Path) -> dict[str, Any]:
    """All of it."""
    torch.set_num_threads(1)
    return {"trained": [trained(folder)], **{variant: captions(variant) for variant in VARIANTS}}


if __name__ == "__main__":
    assert find_spec("densevid.kernels") is None, "this copy of the package still has its kernels"
    (Path(sys.argv[1]) / "work.json").write_text(json.dumps(work(Path(sys.argv[1]))))
