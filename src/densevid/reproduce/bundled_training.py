"""How the bundled model is trained: three sittings, each from where the one before ended.

The words first: encoder and captioner learn from clips as they are and, a little, from events in timelines. Then where
events are: proposals and masks learn, and the words' loss moves them too, while encoder and captioner stay what they
are. Learnt all at once, so few clips are learnt by heart: docs/bundled.md has the figures. At last shortly the same
with many more videos in which nothing happens. A sitting that was stopped goes on; one that is done is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from densevid.config import load_config
from densevid.training.prepare import ClipFiles
from densevid.training.run import TrainingJob, train
from densevid.training.run_folder import RunFolder

PRESET = "bundled"
EVENTS_ALONE = ("frozen_encoder=true", "frozen_captioner=true", "disguised=0", "clips_per_batch=0")
SITTINGS: dict[str, tuple[str, ...]] = {
    "words": ('task="captions"', "disguised=0", "batch_size=32", "timelines=3600", "warmup_steps=100"),
    "events": (*EVENTS_ALONE, "warmup_steps=50"),
    "quiet": (
        *EVENTS_ALONE,
        "quiet_every=3",
        "epochs=1",
        "batch_size=32",
        "timelines=6400",
        "learning_rate=2e-4",
        "warmup_steps=10",
        "ema=0.9",
    ),
}


def train_bundled(
    data: Path,
    split: str,
    out: Path,
    preset: str = PRESET,
    *,
    device: str | None = None,
    workers: int = 0,
    say: Callable[[str], None] = print,
) -> Path:
    """All sittings, OUT/SITTING each; gives the folder of the last run."""
    before: RunFolder | None = None
    for name, settings in SITTINGS.items():
        folder = RunFolder(out / name)
        job = TrainingJob(
            config=load_config(preset, [f"training.{setting}" for setting in settings]),
            training=ClipFiles(data, split, data / "features"),
            out=folder.path,
            start_from=before.model if before else None,
            resume=True,
            device=device,
            workers=workers,
        )
        say(f"{folder.path}: {name}")
        train(job, report=say)
        before = folder
    assert before is not None
    return before.path
