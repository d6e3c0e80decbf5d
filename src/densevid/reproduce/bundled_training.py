"""How the bundled model is trained: three sittings, each from where the one before ended.

End to end first. Then shortly again with a low rate, for what the model that is shipped had not seen yet: more
photographs that stay, among the videos in which nothing happens. Then the words alone, rewarded for what people say,
while encoder and proposals stay as they are. A sitting that was stopped goes on; one that is done is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from densevid.config import load_config
from densevid.training.prepare import ClipFiles
from densevid.training.run import TrainingJob, train
from densevid.training.run_folder import RunFolder

PRESET = "bundled"
AGAIN = ("epochs=1", "ema=0.9", "learning_rate=1e-4")
SITTINGS: dict[str, tuple[str, ...]] = {
    "end-to-end": (),
    "stills": (*AGAIN, "warmup_steps=10", "batch_size=32", "clips_per_batch=8", "timelines=2880"),
    "words": (
        *AGAIN,
        'task="captions"',
        "frozen_encoder=true",
        'reward="cider+matches"',
        "warmup_steps=5",
        "batch_size=8",
        "clips_per_batch=96",
        "timelines=480",
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
