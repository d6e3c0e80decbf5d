"""Extract features with a backbone of your own, here a colour histogram that needs no network.

    python examples/a_backbone_of_your_own.py video.mp4 --out features
    densevid extract videos/ --out features --backbone examples.a_backbone_of_your_own:backbone

A backbone is a function from pictures to vectors. Put a network of yours in place of `colour_histogram`, train on the
store with `densevid train --features features`, and the model will extract the same features from new videos.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import densevid
from densevid.data.store.reader import FeatureStore
from densevid.errors import run_main
from densevid.io import provenance
from densevid.tracks import FeatureTrack
from densevid.video.backbones import plug_in
from densevid.video.inputs import stem_of

BINS = 4  # per colour channel


def colour_histogram(pictures_SFHWC: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Describe each step by the share of its pixels in each of BINS^3 colours.

    Args:
        pictures_SFHWC: S steps of F frames, each H x W x 3 in RGB.

    Returns:
        S x BINS^3.
    """
    bin_SFHWC = pictures_SFHWC.astype(np.int64) * BINS // 256
    colour_SP = (bin_SFHWC @ (BINS ** np.arange(3))).reshape(len(pictures_SFHWC), -1)
    counts = [np.bincount(colour_P, minlength=BINS**3) for colour_P in colour_SP]
    return (np.array(counts) / colour_SP.shape[1]).astype(np.float32)


# The function with its sampling. Change `version` whenever its vectors change.
backbone = plug_in(
    colour_histogram, name="examples.a_backbone_of_your_own:backbone", frames_per_step=1, size=64, version="1"
)


def largest_changes(track: FeatureTrack, count: int = 3) -> list[float]:
    """Times in seconds at which the features change most between two steps, in order."""
    change_T = np.abs(np.diff(track.values.astype(np.float32), axis=0)).sum(axis=1)
    steps = np.argsort(-change_T, kind="stable")[:count] + 1
    return sorted(track.seconds(steps).tolist())


def main(arguments: Sequence[str] | None = None) -> int:
    """Extract one video, print where it changes, and optionally write a feature store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", type=Path, help="a video file")
    parser.add_argument("--out", type=Path, help="a feature store to write")
    parser.add_argument("--every", type=float, default=0.5, help="seconds per step (.5)")
    parsed = parser.parse_args(arguments)

    track = densevid.extract(parsed.video, backbone=backbone, seconds_per_step=parsed.every)
    print(track)
    print("largest changes at", ", ".join(f"{seconds:.1f} s" for seconds in largest_changes(track)))
    if parsed.out:
        recipe = backbone.recipe(parsed.every)
        store = FeatureStore.create(parsed.out, backbone.streams, recipe=recipe, provenance=provenance())
        with store.writer() as writer:
            writer.add(stem_of(parsed.video), track)
        print(f"{parsed.out}: a feature store with recipe {recipe.id}")
    return 0


if __name__ == "__main__":
    run_main(main)
