"""What the bundled model learns from, in one folder: captioned training clips, and quiet ones of which nobody tells.

FOLDER/clips.json holds the entries of the training clips as they were, and those of drawn videos (`quiet_videos`) with
no captions; FOLDER/features the features of both, reduced alike; the drawn videos themselves lie beside it, in
FOLDER-quiet. Held-out clips are not in it, so nothing can be learnt from them. A still stays with the source of its
clip: what is in `train-dev` is in no photograph of `train-fit`.
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
SEED = 1  # of what is learnt from; what is asked about is drawn with others
STILLS_SEED, STILL_SECONDS = 2, 4.0  # of more photographs, each for less long: they differ as black does not
Report = Callable[[str], None]


def write_bundled_data(clips: Path, store: Path, folder: Path, each: int, stills: int, say: Report = print) -> None:
    """Make the folder, or what is missing of it; `clips` has clips/*.mp4, `store` their reduced features."""
    content = read_json(clips / "clips.json")
    collection = ClipCollection.read(clips, pixels=True)
    training = collection.split(TRAINING)
    photographs = [collection.file(clip) for clip in training]
    videos = folder.with_name(f"{folder.name}-quiet")
    drawn = write_no_event_videos(videos, photographs, each, SEED)
    drawn += write_no_event_videos(videos, photographs, stills, STILLS_SEED, STILL_SECONDS, kinds=("still",))
    say(f"{videos}: {len(drawn)} quiet videos")
    features = copied(FeatureStore.open(store), [clip.name for clip in training], folder / "features")
    extract_alike([videos], features.path, features, say)
    told = {clip.name: content[clip.name] for clip in training}
    write_json(folder / "clips.json", told | quiet_entries(drawn, content))
    say(f"{folder}: {len(told)} clips with captions and {len(drawn)} quiet ones")


def copied(store: FeatureStore, videos: Sequence[str], out: Path) -> FeatureStore:
    """A store with some videos of another, and its reduction."""
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


def extract_alike(inputs: Sequence[Path], out: Path, like: FeatureStore, say: Report = print) -> FeatureStore:
    """Features of video files, made and reduced as those of another store, added to a store."""
    if like.recipe is None:
        raise InputError(f"{like}: does not say how its features are made")
    extraction = Extraction(inputs, workers=1)
    extractor = extractor_of(like.recipe, like.reduction)
    store = extraction.open_store(out, extractor, resume=True)
    if like.reduction is not None:
        like.reduction.save(store.path / REDUCTION)
    for outcome in extraction.run(extractor):
        say(f"{outcome.job.video}: {outcome.error or 'features extracted'}")
    if extraction.report.failed:
        raise InputError(
            f"{out}: {len(extraction.report.failed)} videos have no features: {extraction.report.failed[0]}"
        )
    store.refresh()
    return store


def quiet_entries(drawn: Sequence[NoEventVideo], content: Mapping[str, Any]) -> dict[str, Any]:
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
