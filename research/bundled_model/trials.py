"""The bundled model on video files through the pipeline of `densevid caption`: whole videos, and no-event videos.

Every output and every failure is recorded: decoding, features, and the summary with its least confidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from densevid.errors import InputError, one_line
from densevid.evaluation.evaluate import evaluate
from densevid.events import Event
from densevid.io import read_json
from densevid.pipeline.captioner import VideoCaptioner
from densevid.pipeline.inputs import find_inputs
from densevid.pipeline.model_registry import find_model
from densevid.pipeline.request import EventRequest
from research.bundled_model.no_event_videos import write_no_event_videos
from research.bundled_model.scores import submission

SEED = 2018  # not that of the training data


def caption_videos(model: Path, videos: Path, annotations: Sequence[Path] = ()) -> dict[str, Any]:
    """Caption every video of a folder.

    Args:
        model: A model folder.
        videos: A folder of videos.
        annotations: Annotation files; a video that they have is scored.

    Returns:
        `videos`: the summary of each, or why it failed; `refused`; `scores`.
    """
    captioner = VideoCaptioner(find_model(model), device="cpu")
    truth = [read_json(path) for path in annotations]
    inputs, refused = find_inputs([str(videos)])
    found = {given.name: _captioned(captioner, given.file) for given in inputs if given.file is not None}
    scores = {
        video: _scores(captioner, given.file, video, files)
        for given in inputs
        if (video := given.name) and given.file is not None and (files := [file for file in truth if video in file])
    }
    return {"videos": found, "refused": refused, "scores": scores}


def caption_no_event_videos(model: Path, folder: Path, photographs: Sequence[Path], each: int) -> dict[str, Any]:
    """Count the events that are found in generated no-event videos; there should be none.

    Args:
        model: A model folder.
        folder: Where the videos are written.
        photographs: Videos whose frames become stills.
        each: Videos of each kind.

    Returns:
        The counts, the highest confidence and the sentences, by kind.
    """
    captioner = VideoCaptioner(find_model(model), device="cpu")
    drawn = write_no_event_videos(folder, photographs, each, SEED)
    found: dict[str, list[Sequence[Event]]] = {}
    highest: dict[str, float] = {}
    for video in drawn:
        events = captioner.caption(video.file)
        found.setdefault(video.kind, []).append(events)
        best = max((event.score for event in captioner.caption(video.file, dense=True)), default=0.0)
        highest[video.kind] = max(best, highest.get(video.kind, 0.0))
    return {
        kind: {
            "videos": len(videos),
            "videos with events": sum(bool(events) for events in videos),
            "events": sum(map(len, videos)),
            "highest confidence": round(highest[kind], 4),
            "sentences": [event.sentence for events in videos for event in events],
        }
        for kind, videos in found.items()
    }


def _captioned(captioner: VideoCaptioner, file: Path) -> dict[str, Any]:
    try:
        captions = captioner.caption_file(file, file.stem, EventRequest())
    except InputError as error:
        return {"failed": one_line(error)}
    return {
        "seconds": round(captions.duration, 1),
        "events": [_row(event) for event in captions.events],
        **({"warning": captions.warning} if captions.warning else {}),
    }


def _row(event: Event) -> dict[str, Any]:
    return {
        "start": round(event.start, 1),
        "end": round(event.end, 1),
        "sentence": event.sentence,
        "confidence": round(event.score, 3),
        "sentence_confidence": None if event.sentence_score is None else round(event.sentence_score, 3),
        "full_sentence": event.full_sentence,
    }


def _scores(
    captioner: VideoCaptioner, file: Path, video: str, references: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """A video against its own references: its summary, and all proposals."""
    own = [{video: content[video]} for content in references]
    summary, dense = captioner.caption(file), captioner.caption(file, dense=True)
    of_summary = evaluate(submission({video: summary}), own, metrics=("captioning", "soda"))
    of_dense = evaluate(submission({video: dense}), own, metrics=("captioning",))
    assert of_summary.captioning and of_summary.soda and of_dense.captioning
    return {
        "reference files": len(own),
        "events": len(summary),
        "METEOR 2018": 100 * of_summary.captioning.average()["METEOR"],
        "SODA_c": 100 * of_summary.soda.tables["c"]["multi"].means()["f1"],
        "F1": of_summary.captioning.average()["F1"],
        "METEOR 2018 of all proposals": 100 * of_dense.captioning.average()["METEOR"],
    }
