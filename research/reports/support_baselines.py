r"""Write event files to compare with in `densevid evaluate --metrics support`: one sentence for all clips, a person's.

Written to --out, for the clips of a split: most_frequent.json, the most frequent training sentence for every clip;
labels.json with --labels, "someone is LABEL"; and one_annotator.json, one annotator's sentence, which is to be scored
against the others, references_others.json.

  python -m research.reports.support_baselines CLIPS --split val --learn train --out BASELINES
  densevid evaluate BASELINES/most_frequent.json --references CLIPS/clips.json:val --metrics support
  densevid evaluate BASELINES/one_annotator.json --references BASELINES/references_others.json --metrics support
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from densevid.cli import run_program
from densevid.errors import InputError
from densevid.events import Event, write_events
from densevid.io import provenance, read_json, write_json
from densevid.timelines.clips import is_in_split
from research.baselines.captions import most_frequent_sentence

SECONDS_OF_A_PICTURE = 1.0


def clips_of(folder: Path, split: str) -> dict[str, Any]:
    """The entries of clips.json in a split.

    Raises:
        InputError: There are none.
    """
    content = read_json(folder / "clips.json")
    clips = {name: entry for name, entry in content.items() if is_in_split(name, entry, split)}
    if not clips:
        raise InputError(f"{folder}: there is no clip in split {split!r}")
    return clips


def label_sentences(labels: Mapping[str, str], clips: Mapping[str, Any]) -> dict[str, str]:
    """The sentence "someone is LABEL" for each clip, empty where it has no label."""
    return {name: f"someone is {labels[name]}" if labels.get(name) else "" for name in clips}


def one_annotator(clips: Mapping[str, Any], seed: int = 0) -> tuple[dict[str, str], dict[str, Any]]:
    """One sentence of each clip, drawn at random, and the others as references."""
    random = np.random.default_rng(seed)
    drawn, others = {}, {}
    for name, clip in clips.items():
        place = int(random.integers(len(clip["captions"])))
        rest = [text for index, text in enumerate(clip["captions"]) if index != place]
        drawn[name] = clip["captions"][place]
        others[name] = {"timestamps": [[0, _seconds(clip)]] * len(rest), "sentences": rest}
    return drawn, others


def _seconds(clip: Mapping[str, Any]) -> float:
    return float(clip.get("seconds", SECONDS_OF_A_PICTURE))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("clips", type=Path, metavar="CLIPS", help="a folder with clips.json")
    parser.add_argument("--split", default="val", help="the clips to describe (val)")
    parser.add_argument("--learn", default="train", help="the clips whose most frequent sentence is taken (train)")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="a label for each clip, {clip: label}")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")


def run(args: argparse.Namespace) -> int:
    """Write the files and print their paths."""
    clips = clips_of(args.clips, args.split)
    training = [text for clip in clips_of(args.clips, args.learn).values() for text in clip["captions"]]
    drawn, others = one_annotator(clips)
    files = {"most_frequent": dict.fromkeys(clips, most_frequent_sentence(training)), "one_annotator": drawn}
    if args.labels:
        files["labels"] = label_sentences(read_json(args.labels), clips)
    about = provenance(inputs=[args.clips / "clips.json"], command="support_baselines")
    for name, sentences in files.items():
        events = {clip: [Event(0, _seconds(clips[clip]), text)] for clip, text in sentences.items()}
        write_events(args.out / f"{name}.json", events, provenance=about)
        print(args.out / f"{name}.json")
    write_json(args.out / "references_others.json", others)
    print(args.out / "references_others.json")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m research.reports.support_baselines", __doc__, add_arguments, run))
