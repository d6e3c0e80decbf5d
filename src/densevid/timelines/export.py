"""Write a fixed set of timelines to files that every command reads, and report near duplicates between splits.

DIR/features/ (a feature store) or DIR/videos/*.mp4
DIR/references_1.json, references_2.json, ...    in ActivityNet's form, one per annotator, with the same timestamps; an
                                                 event with fewer sentences than annotators is missing in later files
DIR/timelines.json                               how the set was made and what it contains; written last

`near_duplicates` finds footage that two splits share although its sources have different names: clips of different
splits whose mean features (or first thumbnails), relative to the mean of all clips, have a cosine above a threshold.
Clips without captions are left out, as all black clips are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from densevid.data.annotations import read_annotations
from densevid.data.store.format import MANIFEST
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.io import hash_of, provenance, read_json, write_json
from densevid.timelines.clips import Clip, ClipCollection
from densevid.timelines.compose import FRAME_RATE, TimelineGenerator
from densevid.timelines.plan import TimelinePlan
from densevid.timelines.sources import ClipFeatures
from densevid.tracks import FloatArray
from densevid.video.reduction import FILE as REDUCTION

ALIKE = 0.9
BLOCK = 512


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """A clip of a split, a clip of another split that looks the same, and the cosine between their vectors."""

    clip: str
    other: str
    similarity: float


def near_duplicates(collection: ClipCollection, split: str, *, threshold: float = ALIKE) -> list[NearDuplicate]:
    """Find clips of other splits that look like clips of this one.

    Args:
        collection: The clips.
        split: The split to check.
        threshold: Smallest cosine to report.

    Returns:
        For every clip of the split its most similar clip outside it, if above the threshold; highest cosine first.
    """
    inside = {clip.name for clip in collection.split(split)}
    vectors_ND = clip_vectors(collection)
    captioned = [clip for clip in collection.clips if clip.captions]
    here = np.array([clip.name in inside for clip in captioned])
    names = np.array([clip.name for clip in captioned])
    found = []
    for block in np.array_split(np.flatnonzero(here), max(1, here.sum() // BLOCK)) if not here.all() else ():
        cosine = vectors_ND[block] @ vectors_ND[~here].T
        best = cosine.argmax(axis=1)
        pairs = zip(names[block], names[~here][best], cosine.max(axis=1), strict=True)
        found += [NearDuplicate(str(a), str(b), round(float(c), 4)) for a, b, c in pairs if c >= threshold]
    return sorted(found, key=lambda pair: -pair.similarity)


def clip_vectors(collection: ClipCollection) -> FloatArray:
    """One unit vector per clip with captions, relative to the mean of all."""
    captioned = [clip for clip in collection.clips if clip.captions]
    vectors_ND = np.array([_vector(collection, clip) for clip in captioned], dtype=np.float32)
    vectors_ND -= vectors_ND.mean(axis=0)
    length_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return np.asarray(vectors_ND / np.maximum(length_N1, np.finfo(np.float32).tiny))


def _vector(collection: ClipCollection, clip: Clip) -> FloatArray:
    if collection.features is not None:
        rows = collection.features[clip.first_row : clip.first_row + clip.rows]
        return np.asarray(rows.mean(axis=0, dtype=np.float32))
    from densevid.video.composition import thumbnails

    return thumbnails(collection.file(clip))


VideoEvents = tuple[float, list[tuple[tuple[float, float], Sequence[str]]]]  # duration, (span, sentences) of each event
Lengths = Iterable[tuple[str, float]]  # id and seconds of each video
Done = Callable[[str], None]  # called with the id of each finished video
ABOUT = "timelines.json"
OPTIONAL_KEYS = ("layouts", "features")  # missing in sets of earlier versions, which are compared by video lengths
COMMIT_EVERY = 32


def write_timelines(generator: TimelineGenerator, count: int, folder: Path, annotators: int, done: Done) -> None:
    """Write a set of timelines; videos that an earlier, interrupted call has finished are kept.

    Args:
        generator: Composes the videos.
        count: Number of videos.
        folder: Where to write; new, empty, or holding the same set.
        annotators: Reference files at most.
        done: Called with the id of each finished video.

    Raises:
        InputError: The folder holds something else, or the clips cannot fill a timeline.
    """
    settings = {"split": generator.split, "seed": generator.seed, "videos": count, "annotators": annotators}
    settings["layouts"] = generator.layouts.fingerprint
    lengths = ((generator.name(index), generator.plan(index).seconds) for index in range(count))
    about = _begin(folder, generator.collection, "timelines", settings, lengths)
    write = _write_pictures if generator.collection.features is None else _write_features
    videos: dict[str, VideoEvents] = {}
    for video, plan in write(generator, count, folder):
        videos[video] = plan.seconds, [(plan.span(event), event.sentences) for event in plan.events]
        done(video)
    _finish(folder, about, videos, annotators, generator)


def write_clips(collection: ClipCollection, split: str, folder: Path, annotators: int | None, done: Done) -> None:
    """Write the clips of a split uncomposed, each as a video with one event.

    Args:
        collection: The clips, with features.
        split: Which of them.
        folder: Where to write; new, empty, or holding the same set.
        annotators: Reference files at most; None writes one for every caption.
        done: Called with the id of each finished video.

    Raises:
        InputError: The folder holds something else, or the collection has no features.
    """
    source = ClipFeatures(collection, split)
    lengths = ((video, source.extent(video).duration or 0.0) for video in source.videos())
    about = _begin(folder, collection, "clips", {"split": split, "annotators": annotators}, lengths)
    store = _store(folder, collection)
    videos: dict[str, VideoEvents] = {}
    with store.writer(commit_every=COMMIT_EVERY) as writer:
        for clip in collection.split(split):
            if clip.name not in store:
                writer.add(clip.name, source.track(clip.name))
            seconds = source.extent(clip.name).duration or clip.seconds
            videos[clip.name] = seconds, [((0.0, seconds), clip.captions)]
            done(clip.name)
    most = max(len(clip.captions) for clip in collection.split(split))
    _finish(folder, about, videos, annotators or most, None)


def references(videos: Mapping[str, VideoEvents], annotators: int) -> list[dict[str, Any]]:
    """The contents of references_1.json, references_2.json, ...: at most as many as an event has sentences."""
    files = []
    for number in range(annotators):
        content = {}
        for video, (seconds, events) in videos.items():
            rows = [
                (span, texts[number])
                for span, texts in sorted(events, key=lambda event: event[0])
                if number < len(texts)
            ]
            if rows:
                spans, sentences = zip(*rows, strict=True)
                content[video] = {"duration": seconds, "timestamps": [*map(list, spans)], "sentences": [*sentences]}
        if content:
            files.append(content)
    return files


def _write_features(generator: TimelineGenerator, count: int, folder: Path) -> Iterator[tuple[str, TimelinePlan]]:
    store = _store(folder, generator.collection)
    with store.writer(commit_every=COMMIT_EVERY) as writer:
        for index in range(count):
            video, plan = generator.planned(index)
            if video not in store:
                writer.add(video, generator.track(plan))
            yield video, plan


def _write_pictures(generator: TimelineGenerator, count: int, folder: Path) -> Iterator[tuple[str, TimelinePlan]]:
    from densevid.video.composition import Blend, PictureShot, write_video

    for index in range(count):
        video, plan = generator.name(index), generator.plan(index)
        path = folder / "videos" / f"{video}.mp4"
        if not path.exists():
            file = generator.collection.file
            shots = [PictureShot(file(shot.clip), shot.clip_ticks, shot.first, shot.ticks) for shot in plan.shots]
            blends = {dissolve.shot: Blend(dissolve.start, dissolve.ticks) for dissolve in plan.dissolves}
            write_video(path, shots, blends, FRAME_RATE)
        yield video, plan


def _store(folder: Path, collection: ClipCollection) -> FeatureStore:
    assert collection.features is not None
    dtype = "float16" if collection.features.dtype == np.float16 else "float32"
    about = provenance(command="timelines", composed=True)
    store = FeatureStore.create(
        folder / "features", collection.streams, dtype=dtype, recipe=collection.recipe, provenance=about, resume=True
    )
    if collection.reduction is not None:
        collection.reduction.save(store.path / REDUCTION)
    return store


def _begin(
    folder: Path, collection: ClipCollection, kind: str, settings: Mapping[str, Any], lengths: Lengths
) -> dict[str, Any]:
    """Start or resume a set; a folder that holds another one is refused."""
    inputs = [collection.folder / "clips.json"]
    if collection.extracted is None:
        inputs.append(collection.folder / ("features.npy" if collection.features is not None else "clips"))
    else:
        settings = {**settings, "features": collection.fingerprint}
    made_by = provenance(command="timelines", inputs=inputs, config_hash=hash_of(settings))
    about = {"kind": kind, "composed": kind == "timelines", "settings": dict(settings), "complete": False}
    about["provenance"] = made_by
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: exists and is not a folder")
    if (folder / ABOUT).exists():
        _require_same(folder, read_json(folder / ABOUT), about, lengths)
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: is not empty and holds no timelines; choose another folder")
    write_json(folder / ABOUT, about)
    return about


def _require_same(folder: Path, found: Any, wanted: Mapping[str, Any], lengths: Lengths) -> None:
    """Refuse a folder whose set was made differently: its finished videos would be kept."""
    before, now = _made_of(found), _made_of(wanted)
    unknown = [key for key in OPTIONAL_KEYS if key in now and key not in before]
    keys = [key for key in {**now, **before} if key not in unknown and before.get(key) != now.get(key)]
    if keys:
        raise InputError(
            f"{folder}: holds another set of timelines (not the same: {', '.join(keys)}); choose another folder"
        )
    if unknown and _kept(folder).items() - set(lengths):
        reason = f"does not record its {' and '.join(unknown)}, and its videos are not those of this command"
        raise InputError(f"{folder}: {reason}; choose another folder")


def _made_of(about: Any) -> dict[str, Any]:
    """What determines the content of a set: its kind, its settings, and the files it was made of."""
    if not isinstance(about, dict):
        return {}
    parts = about.get("settings"), about.get("provenance", {}).get("inputs")
    settings, inputs = (part if isinstance(part, dict) else {} for part in parts)
    return {"kind": about.get("kind"), **settings, **inputs}


def _kept(folder: Path) -> Mapping[str, float | None]:
    """Seconds of the videos that an earlier call has finished; of .mp4 files only those of a complete set."""
    if (folder / "features" / MANIFEST).exists():
        store = FeatureStore.open(folder / "features")
        return {video: store.extent(video).duration for video in store.videos()}
    references = folder / "references_1.json"
    return read_annotations(references).durations if references.exists() else {}


def _finish(
    folder: Path,
    about: dict[str, Any],
    videos: Mapping[str, VideoEvents],
    annotators: int,
    generator: TimelineGenerator | None,
) -> None:
    """Write the references, then mark the set as complete."""
    files = references(videos, annotators)
    for number, content in enumerate(files, start=1):
        write_json(folder / f"references_{number}.json", content)
    lengths = [end - start for _, events in videos.values() for (start, end), _ in events]
    about["complete"] = True
    about["contents"] = {
        "videos": len(videos),
        "events": len(lengths),
        "hours": round(sum(seconds for seconds, _ in videos.values()) / 3600, 2),
        "events_per_video": round(len(lengths) / len(videos), 2),
        "median_event_seconds": round(float(np.median(lengths)), 1),
        "reference_files": len(files),
    }
    if generator is not None:
        pool = generator.pool
        about["contents"] |= {"event_clips": len(pool.events), "background_clips": len(pool.background)}
        about["near_duplicates"] = [asdict(pair) for pair in near_duplicates(generator.collection, generator.split)]
    write_json(folder / ABOUT, about)
