"""The training data of the bundled model in one folder: captioned training clips, and generated no-event clips.

FOLDER/clips.json holds the entries of the training clips as they were, and those of no-event videos (`no_event_videos`)
with no captions; FOLDER/features the features of both, reduced alike. The no-event videos themselves lie beside it, in
FOLDER-no-events. Held-out clips are not in it, so nothing can be learned from them. A still stays with the source of
its clip: no still in `train-fit` shows a clip of `train-dev`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from densevid.data.extraction import Extraction
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.io import provenance, read_json, write_json
from densevid.timelines.clips import SOURCE_KEYS, ClipCollection
from densevid.video.extract import extractor_of
from densevid.video.reduction import FILE as REDUCTION
from research.bundled_model.no_event_videos import NoEventVideo, write_no_event_videos

TRAINING = "train"
SEED = 1  # of training videos; those that are scored have others
STILLS_SEED, STILL_SECONDS = 2, 4.0  # of additional stills, which are shorter: unlike black, they all differ
Report = Callable[[str], None]


def write_bundled_data(clips: Path, store: Path, folder: Path, each: int, stills: int, report: Report = print) -> None:
    """Write the folder, or what is missing of it.

    Args:
        clips: A clip collection with clips/*.mp4.
        store: The reduced features of its clips.
        folder: Where to write.
        each: No-event videos of each kind.
        stills: Additional stills.
        report: Gets a line for each step.
    """
    content = read_json(clips / "clips.json")
    collection = ClipCollection.read(clips, pixels=True)
    training = collection.split(TRAINING)
    photographs = [collection.file(clip) for clip in training]
    videos = folder.with_name(f"{folder.name}-no-events")
    drawn = write_no_event_videos(videos, photographs, each, SEED)
    drawn += write_no_event_videos(videos, photographs, stills, STILLS_SEED, STILL_SECONDS, kinds=("still",))
    report(f"{videos}: {len(drawn)} no-event videos")
    features = copy_store(FeatureStore.open(store), [clip.name for clip in training], folder / "features")
    extract_alike([videos], features.path, features, report)
    captioned = {clip.name: content[clip.name] for clip in training}
    write_json(folder / "clips.json", captioned | no_event_entries(drawn, content))
    report(f"{folder}: {len(captioned)} clips with captions and {len(drawn)} without")


def copy_store(store: FeatureStore, videos: Sequence[str], out: Path) -> FeatureStore:
    """Write a store with some videos of another, and its reduction."""
    if absent := [video for video in videos if video not in store]:
        raise InputError(f"{store}: clip {absent[0]} has no features ({len(absent)} of {len(videos)} have none)")
    about = provenance(command="bundled_model data", inputs=[store.path])
    fresh = FeatureStore.create(
        out, store.streams, dtype=store.manifest.dtype, recipe=store.recipe, provenance=about, resume=True
    )
    if store.reduction is not None:
        store.reduction.save(out / REDUCTION)
    with fresh.writer(commit_every=len(videos)) as writer:
        for video in videos:
            if video not in fresh:
                writer.add(video, store.track(video))
    return fresh


def extract_alike(inputs: Sequence[Path], out: Path, like: FeatureStore, report: Report = print) -> FeatureStore:
    """Extract and reduce features as those of the store `like` were, and add them to the store `out`."""
    if like.recipe is None:
        raise InputError(f"{like}: has no recipe, so its features cannot be extracted for other videos")
    extraction = Extraction(inputs, workers=1)
    extractor = extractor_of(like.recipe, like.reduction)
    store = extraction.open_store(out, extractor, resume=True)
    if like.reduction is not None:
        like.reduction.save(store.path / REDUCTION)
    for outcome in extraction.run(extractor):
        report(f"{outcome.job.video}: {outcome.error or 'features extracted'}")
    if extraction.report.failed:
        raise InputError(
            f"{out}: {len(extraction.report.failed)} videos have no features: {extraction.report.failed[0]}"
        )
    store.refresh()
    return store


def no_event_entries(drawn: Sequence[NoEventVideo], content: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of clips.json: no captions, and the source of a photograph where there is one."""
    return {
        video.file.stem: {
            "split": TRAINING,
            "seconds": video.seconds,
            "source": _source(video, content),
            "captions": [],
        }
        for video in drawn
    }


def _source(video: NoEventVideo, content: Mapping[str, Any]) -> str:
    if video.photograph is None:
        return video.file.stem
    entry = content[video.photograph.stem]
    return next((str(entry[key]) for key in SOURCE_KEYS if key in entry), video.photograph.stem)
