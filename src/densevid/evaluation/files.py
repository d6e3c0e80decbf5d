"""Event files as they are written: predictions and references, flat, before any protocol scores them.

Protocols score reversed, negative and zero-length times as they stand, so nothing here becomes an `Event`. A column
(times, sentences, scores) is checked when a protocol first reads it: a file without times can still be scored as
paragraphs, and an error names video and index.

`official_order` gives the order in which the official evaluators walk through videos: that of a Python set of their
names with hash seed 0. They write the captions of all videos into one file for the tokenizer, which looks ahead, so
the tokens of a video's last caption may depend on the next video (see `meteor.ptb_tokenizer`); only then does the
order matter.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densevid.errors import InputError
from densevid.io import fingerprint, read_json

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Source = Path | str | Mapping[str, Any]  # a file, or its content
REPEATED_NAMES_SHOWN = 3
SECONDS_OF_A_PICTURE = 1.0


@dataclass(frozen=True)
class EventFile:
    """The events of one file, flat: event `e` belongs to `videos[video_E[e]]` and is its `index_E[e]`-th entry."""

    name: str
    digest: str
    videos: list[str]
    video_E: Integers
    index_E: Integers
    raw: list[Any] = field(repr=False)
    warnings: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.raw)

    @cached_property
    def intervals_E2(self) -> Floats:
        """Start and end in seconds, exactly as written."""
        return np.array(self._column("timestamp", _interval), dtype=np.float64).reshape(-1, 2)

    @cached_property
    def sentences(self) -> list[str]:
        """One sentence an event, exactly as written: its `full_sentence` if it has one, else its `sentence`."""
        if not any("full_sentence" in event for event in self.raw):
            return self._column("sentence", _sentence)
        return self._column("full_sentence", _sentence, instead="sentence")

    @cached_property
    def shown_sentences(self) -> list[str]:
        """The `sentence` of each event, which is empty where a captioner abstains."""
        return self._column("sentence", _sentence)

    @cached_property
    def shortened_E(self) -> Booleans:
        """Whether each event's sentence is marked as `shortened`."""
        return np.array([event.get("shortened") is True for event in self.raw], dtype=bool)

    def optional_numbers(self, key: str) -> Floats:
        """A number of each event; NaN where it is missing or null."""
        there_E = np.array([event.get(key) is not None for event in self.raw], dtype=bool)
        values_E = np.full(len(self), np.nan)
        values_E[there_E] = self.keep(there_E, empty_videos=True)._column(key, _number)
        return values_E

    @cached_property
    def scores_E(self) -> Floats:
        """`proposal_score` of each event."""
        return np.array(self._column("proposal_score", _number), dtype=np.float64)

    @cached_property
    def counts_V(self) -> Integers:
        """The number of events of each video."""
        return np.bincount(self.video_E, minlength=len(self.videos))

    @property
    def videos_with_events(self) -> list[str]:
        """The videos that have an event, in file order."""
        return [video for video, count in zip(self.videos, self.counts_V.tolist(), strict=True) if count]

    def keep(self, kept_E: Booleans, *, empty_videos: bool) -> EventFile:
        """Leave events out of the file, and the videos that become empty unless `empty_videos`."""
        video_E = self.video_E[kept_E]
        counts_V = np.bincount(video_E, minlength=len(self.videos))
        stays_V = np.ones_like(counts_V, dtype=bool) if empty_videos else counts_V > 0
        videos = [video for video, stays in zip(self.videos, stays_V.tolist(), strict=True) if stays]
        raw = [event for event, kept in zip(self.raw, kept_E.tolist(), strict=True) if kept]
        video_E = (np.cumsum(stays_V) - 1)[video_E]
        file = EventFile(self.name, self.digest, videos, video_E, _ranks(counts_V), raw, self.warnings)
        if "intervals_E2" in self.__dict__:  # read already
            file.__dict__["intervals_E2"] = self.intervals_E2[kept_E]
        return file

    def _column(self, key: str, read: Callable[[Any], Any], *, instead: str | None = None) -> list[Any]:
        """The values of a field; where it is missing or null those of the field `instead`."""
        values = []
        for place, event in enumerate(self.raw):
            name = key if instead is None or event.get(key) is not None else instead
            try:
                values.append(read(event[name]))
            except KeyError:
                raise InputError(f'{self._where(place)}: "{name}" is missing') from None
            except ValueError as error:
                raise InputError(f'{self._where(place)}: "{name}" {error}, got {event[name]!r:.60}') from None
        return values

    def _where(self, place: int) -> str:
        return f"{self.name}: video {self.videos[self.video_E[place]]}: event {self.index_E[place]}"


def read_predictions(source: Source) -> EventFile:
    """Read predictions in the submission format of the ActivityNet challenge.

    Args:
        source: A JSON file or its content: `{"results": {video: [{"timestamp": [start, end], "sentence": text,
            "proposal_score": score}, ...]}}`. A protocol that does not use a field does not need it.

    Returns:
        The events in file order.

    Raises:
        InputError: It is not such a file.
    """
    name, digest, content, warnings = load(source, "predictions")
    results = content.get("results") if isinstance(content, Mapping) else None
    if not isinstance(results, Mapping):
        raise InputError(f'{name}: predictions need "results": {{video: [event, ...]}}')
    for video, events in results.items():
        if not isinstance(events, list):
            raise InputError(f"{name}: video {video}: expected a list of events, got {type(events).__name__}")
        for index, event in enumerate(events):
            if not isinstance(event, Mapping):
                found = type(event).__name__
                raise InputError(f"{name}: video {video}: event {index}: expected an object, got {found}")
    absent = [key for key in ("version", "external_data") if key not in content]
    warnings += [f'{name}: "{key}" is missing; the challenge server would refuse this file' for key in absent]
    file = _flatten(name, digest, results, warnings)
    if any(isinstance(event.get("timestamp"), list) and len(event["timestamp"]) > 2 for event in file.raw):
        warnings.append(f"{name}: some timestamps have more than two values; the first two are used")
    return file


def read_references(source: Source) -> EventFile:
    """Read one annotator's references, or the clips.json of a clip collection with the sentences of all annotators.

    Args:
        source: A JSON file or its content: `{video: {"timestamps": [[start, end], ...], "sentences": [text, ...]}}`, or
            `{clip: {"split", "seconds", "captions"}}`; of a clip each caption is an event that lasts as long as the
            clip, or 1 s without `seconds` (a picture). `clips.json:SPLIT` reads one split, or a part such as
            `train-dev`.

    Returns:
        The events in file order.

    Raises:
        InputError: It is not such a file.
    """
    file, split = split_of(source)
    name, digest, content, warnings = load(file, "references")
    if split or _holds_clips(content):
        content = _clips_as_references(name, content, split)
        name = f"{name}:{split}" if split else name
    if not isinstance(content, Mapping) or not content:
        raise InputError(f'{name}: references need {{video: {{"timestamps": [...], "sentences": [...]}}}}')
    results = {}
    for video, entry in content.items():
        times, sentences = (_list_in(name, video, entry, key) for key in ("timestamps", "sentences"))
        if len(times) != len(sentences):
            raise InputError(f"{name}: video {video}: {len(times)} timestamps but {len(sentences)} sentences")
        results[video] = [{"timestamp": t, "sentence": s} for t, s in zip(times, sentences, strict=True)]
    return _flatten(name, digest, results, warnings)


def split_of(source: Source) -> tuple[Source, str]:
    """The file of `FILE.json:SPLIT`, and the split; no split for any other source."""
    if isinstance(source, Mapping) or Path(source).exists() or ".json:" not in str(source):
        return source, ""
    file, _, split = str(source).rpartition(":")
    return file, split


def load(source: Source, what: str) -> tuple[str, str, Any, list[str]]:
    """Name, hash and content of a file (or of its content as an object), and warnings about repeated keys."""
    if isinstance(source, Mapping):
        return what, f"object:{hashlib.sha256(repr(source).encode()).hexdigest()}", source, []
    repeated: list[str] = []

    def object_from(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            repeated.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return content

    name, content = Path(source).name, read_json(source, object_from=object_from)
    shown, more = repeated[:REPEATED_NAMES_SHOWN], len(repeated) - REPEATED_NAMES_SHOWN
    warnings = [f"{name}: {key!r} stands more than once in its object; the last one counts" for key in shown]
    if more > 0:
        warnings.append(f"{name}: {more} more names are repeated like that")
    return name, fingerprint(source), content, warnings


def union_of_videos(files: Sequence[EventFile]) -> list[str]:
    """Every video of any file, in order of first appearance."""
    return list(dict.fromkeys(video for file in files for video in file.videos))


def position_in(videos: Sequence[str], file: EventFile) -> Integers:
    """For each event of the file, the place of its video in `videos`, or -1."""
    place = {video: index for index, video in enumerate(videos)}
    place_V = np.array([place.get(video, -1) for video in file.videos], dtype=np.int64)
    return place_V[file.video_E]


_SET_ORDER = """
import json, sys
files, predicted = json.load(sys.stdin)
videos = set()
for names in files:
    videos |= set(names)
if predicted is not None:
    videos = videos & set(predicted)
json.dump(list(videos), sys.stdout)
"""


def official_order(files: Sequence[Sequence[str]], predicted: Sequence[str] | None = None) -> list[str]:
    """The videos of any file (and predicted, if given) in the order of a set; in file order if Python cannot be run."""
    names = dict.fromkeys(name for file in files for name in file)
    known = names if predicted is None else set(predicted)
    videos = [name for name in names if name in known]
    request = json.dumps([list(map(list, files)), predicted])
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-S", "-c", _SET_ORDER]
    try:
        run = subprocess.run(command, input=request, env=environment, capture_output=True, text=True, timeout=60)
        ordered = json.loads(run.stdout) if run.returncode == 0 else videos
    except (OSError, ValueError, subprocess.SubprocessError):
        return videos
    return ordered if set(ordered) == set(videos) else videos


def _holds_clips(content: Any) -> bool:
    first = next(iter(content.values()), None) if isinstance(content, Mapping) else None
    return isinstance(first, Mapping) and "captions" in first and "timestamps" not in first


def _clips_as_references(name: str, clips: Any, split: str) -> dict[str, Any]:
    """Each caption of a clip as an event of the clip's length."""
    from densevid.timelines.clips import is_in_split

    if not _holds_clips(clips):
        raise InputError(f"{name}: only the clips.json of a clip collection has splits; leave out :{split}")
    references = {}
    for clip, entry in clips.items():
        captions = _list_in(name, clip, entry, "captions")
        if not split or is_in_split(clip, entry, split):
            seconds = entry.get("seconds", SECONDS_OF_A_PICTURE)
            references[clip] = {"timestamps": [[0, seconds]] * len(captions), "sentences": captions}
    if not references:
        raise InputError(f"{name}: there is no clip in split {split!r}")
    return references


def _list_in(name: str, video: str, entry: Any, key: str) -> list[Any]:
    values = entry.get(key) if isinstance(entry, Mapping) else None
    if not isinstance(values, list):
        raise InputError(f'{name}: video {video}: "{key}" must be a list')
    return values


def _flatten(name: str, digest: str, results: Mapping[str, list[Any]], warnings: list[str]) -> EventFile:
    counts_V = np.array([len(events) for events in results.values()], dtype=np.int64)
    video_E = np.repeat(np.arange(len(results)), counts_V)
    raw = [event for events in results.values() for event in events]
    return EventFile(name, digest, list(results), video_E, _ranks(counts_V), raw, warnings)


def _ranks(counts_V: Integers) -> Integers:
    """0, 1, 2, ... within each video."""
    first_V = np.cumsum(counts_V) - counts_V
    return np.arange(int(counts_V.sum())) - np.repeat(first_V, counts_V)


def _interval(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) < 2:
        raise ValueError("must be [start, end]")
    return _number(value[0]), _number(value[1])


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("must be finite")
    return number


def _sentence(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value
