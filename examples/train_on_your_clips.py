"""Train a model that captions untrimmed videos on your own trimmed, captioned clips.

    python examples/train_on_your_clips.py my_clips/ --out run --features features
    densevid caption video.mp4 --model run/model

my_clips/ holds clips.json, {clip: {"split": "train", "seconds", "captions": [...], "source"}}, and clips/CLIP.mp4.
Training videos are composed of the clips on the fly (docs/timelines.md). A few hundred clips are enough to start, and
a thousand or more with several captions each make a useful model, which takes a GPU; --set training.epochs=1 tries it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import densevid
from densevid.config import Config, load_config
from densevid.errors import run_main
from densevid.timelines.clips import ClipCollection
from densevid.training.data import ClipFiles
from densevid.training.run import TrainingJob, train


def extract_clips(clips: Path, features: Path, backbone: str) -> None:
    """Extract the features of all clips into a store; clips that it has already are skipped."""
    report = densevid.extract_many([clips / "clips"], features, backbone=backbone, resume=True)
    for line in report.failed:
        print(line, file=sys.stderr)
    print(f"{features}: {report.extracted} clips extracted, {report.already_there} there before")


def settings_for(clips: Path, features: Path | None, changes: Sequence[str]) -> Config:
    """The settings of the preset `timelines`, with the streams of these features, changed as on the command line."""
    names, widths = zip(*ClipCollection.read(clips, features=features).streams, strict=True)
    streams = [f"features.streams={json.dumps(names)}", f"features.widths={json.dumps(widths)}"]
    return load_config("timelines", [*streams, *changes])


def main(arguments: Sequence[str] | None = None) -> int:
    """Extract, train, and print where the model is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path, help="the clip collection")
    parser.add_argument("--out", type=Path, required=True, help="the run folder; run/model is the model")
    parser.add_argument("--features", type=Path, help="store for the clips' features (not needed with features.npy)")
    parser.add_argument("--backbone", default="two-stream", help="what describes the frames (two-stream)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting")
    parser.add_argument("--device", help="cpu or cuda (a GPU if there is one)")
    parsed = parser.parse_args(arguments)

    if parsed.features:
        extract_clips(parsed.clips, parsed.features, parsed.backbone)
    config = settings_for(parsed.clips, parsed.features, parsed.set)
    training, validation = (ClipFiles(parsed.clips, f"train-{part}", parsed.features) for part in ("fit", "dev"))
    job = TrainingJob(config, training, parsed.out, validation, device=parsed.device)
    model = train(job, report=lambda line: print(line, flush=True))
    print(f"done; caption a video with: densevid caption video.mp4 --model {model}")
    return 0


if __name__ == "__main__":
    run_main(main)
