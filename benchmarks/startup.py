"""Time how long `densevid train` takes to start on all of ActivityNet Captions, and how much memory it needs.

Features are generated in the release's layout (two .npy files a video) as sparse files: the right shapes and a little
content, so that 55 GB take a few hundred megabytes of disk. Annotations are generated, unless --annotations and
--validation name the real ones.

Examples:
  densevid bench startup
  densevid bench startup --annotations train.json --validation val_1.json --workers 4
  densevid bench startup --share 0.01 --out layout
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from benchmarks.hardware import run_measured
from densevid.cli import run_program
from densevid.config import load_config
from densevid.data.annotations import read_annotations
from densevid.data.dataloader import BatchSampler, SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.errors import InputError
from densevid.io import write_json, write_text
from densevid.training.data import DataFiles, prepare

VIDEOS = {"training": 10_009, "validation": 4_917}
STREAMS = {"resnet": 2048, "bn": 1024}
REAL_VALUES = 16
SENTENCES = ("a dog runs across the garden", "two people dance in a kitchen", "someone slowly pours tea")
SMALL = ("model.width=32", "model.hidden=32", "model.heads=2", "model.layers=1", "training.batch_size=8")


@dataclass(frozen=True)
class Scale:
    """Annotation files by split, or None to generate some, and the share of all videos to use."""

    annotations: dict[str, Path | None]
    share: float = 1.0


def print_startup(scale: Scale, folder: Path | None, workers: int) -> None:
    """Make the layout, train one step of a small network on it, and print how long and how much memory that took."""
    with _folder(folder) as root:
        begun = time.perf_counter()
        files = {split: make_split(root, split, scale) for split in VIDEOS}
        listing = [file.stat() for file in root.rglob("*.npy")]
        apparent = sum(file.st_size for file in listing) / 1e9
        real = sum(file.st_blocks * 512 for file in listing) / 1e9
        print(f"layout: {len(listing):,} files, {apparent:.1f} GB of which {real:.1f} GB are on the disk, ", end="")
        print(f"made in {time.perf_counter() - begun:.0f} s", flush=True)
        before = _processor_seconds()
        seconds, megabytes = run_measured(_command(root, files, workers))
        spent = _processor_seconds() - before
        print(f"densevid train, start to end of one step of a small network, {workers} workers: ", end="")
        print(f"{seconds:.1f} s, {spent:.1f} s of them of processor time, {megabytes:.0f} MB at its peak", flush=True)
        _print_loading(files["training"], workers)


def _processor_seconds() -> float:
    """Of all processes this one started and saw end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _command(root: Path, files: dict[str, DataFiles], workers: int) -> list[str]:
    settings = [word for assignment in SMALL for word in ("--set", assignment)]
    training, validation = files["training"], files["validation"]
    data = ["--annotations", *map(str, training.annotations), "--features", str(training.features)]
    data += ["--validation", *map(str, validation.annotations), "--validation-features", str(validation.features)]
    machine = ["--workers", str(workers), "--limit-steps", "1", "--device", "cpu"]
    return ["train", "activitynet", *data, *settings, *machine, "--out", str(root / "run")]


def _print_loading(files: DataFiles, workers: int, batches: int = 12) -> None:
    """How many samples a second the loader gives, from files that are in the page cache or are holes."""
    data = prepare(load_config("activitynet"), files, None, None)
    assert isinstance(data.training, SegmentDataset)
    loaded = SegmentLoader(data.training, BatchSampler(32, 0), workers=workers).batches(0)
    next(loaded)
    begun, samples = time.perf_counter(), 0
    for _, batch in zip(range(batches), loaded, strict=False):
        samples += len(batch)
    rate = samples / (time.perf_counter() - begun)
    print(f"loading alone, {workers} workers: {rate:.0f} samples/s of 480 x 3072 float32")


def make_split(root: Path, split: str, scale: Scale) -> DataFiles:
    """Write the files of one split: annotations, a duration file, and two sparse arrays a video.

    Args:
        root: The folder of the layout.
        split: `training` or `validation`.
        scale: The annotations, and the share of all videos.

    Returns:
        The files to train or validate on.
    """
    annotations = scale.annotations.get(split) or _generated_annotations(
        root, split, max(2, round(VIDEOS[split] * scale.share))
    )
    durations = read_annotations(annotations).durations
    features = root / "features" / split
    features.mkdir(parents=True)
    lines = []
    for number, (video, seconds) in enumerate(durations.items()):
        steps = max(1, int((seconds or 120.0) * 2))
        lines.append(f"{video},{seconds or 120.0},{steps * 15}\n")
        for stream, width in STREAMS.items():
            _sparse_array(features / f"{video}_{stream}.npy", steps, width, seed=number)
    write_text(features / f"{split}_duration_frame.csv", "".join(lines))
    return DataFiles((annotations,), features)


def _sparse_array(path: Path, steps: int, width: int, seed: int) -> None:
    """A float32 .npy file of steps x width whose first values are real and whose rest is a hole."""
    values = np.random.default_rng(seed).normal(size=REAL_VALUES).astype(np.float32)
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (steps, width)})
    with path.open("wb") as file:
        file.write(header.getvalue() + values.tobytes())
        file.truncate(len(header.getvalue()) + steps * width * 4)


def _generated_annotations(root: Path, split: str, videos: int) -> Path:
    """Annotations like ActivityNet's: two minutes and three to four events a video, by a fixed seed."""
    random = np.random.default_rng([len(split), videos])
    content = {}
    for number in range(videos):
        duration = float(random.uniform(20, 235))
        borders = np.sort(random.uniform(0, duration, size=(int(random.integers(3, 5)), 2)), axis=1)
        sentences = random.choice(SENTENCES, size=len(borders)).tolist()
        entry = {"duration": duration, "timestamps": borders.tolist(), "sentences": sentences}
        content[f"v_{split}_{number:05d}"] = entry
    write_json(root / f"{split}.json", content)
    return root / f"{split}.json"


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """A folder that stays, if one is given, or one that goes."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix="densevid-") as name:
            yield Path(name)
        return
    if given.exists() and any(given.iterdir()):
        raise InputError(f"{given}: is not empty; choose another --out")
    given.mkdir(parents=True, exist_ok=True)
    yield given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--annotations", type=Path, metavar="FILE", help="the real training annotations")
    parser.add_argument("--validation", type=Path, metavar="FILE", help="the real validation annotations")
    parser.add_argument("--share", type=float, default=1.0, metavar="S", help="part of all videos to generate (1)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes that load features (2)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the layout here (default: delete it)")


def run(args: argparse.Namespace) -> int:
    """Print the figures."""
    files = {"training": args.annotations, "validation": args.validation}
    print_startup(Scale(files, args.share), args.out, args.workers)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m benchmarks.startup", __doc__, add_arguments, run))
