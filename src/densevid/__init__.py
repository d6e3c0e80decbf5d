"""densevid: dense video captioning. An untrimmed video becomes a timeline of events, each with a sentence.

    >>> import densevid
    >>> for event in densevid.caption("video.mp4", top=3):
    ...     print(f"from {event.start:.1f} to {event.end:.1f} s, {event.score:.0%}: {event.sentence}")
    from ... to ... s, ...%: ...

`caption` and `load` go from a video to sentences, `extract` and `extract_many` from videos to features, `evaluate` from
sentences to scores. `import densevid` is instant: what a name needs (torch, PyAV, numpy) is imported when it is first
used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from densevid.data.extraction import extract_many
    from densevid.errors import InputError
    from densevid.evaluation.evaluate import Evaluation, evaluate
    from densevid.events import Event
    from densevid.pipeline.captioner import caption, load
    from densevid.pipeline.result import CaptionResult
    from densevid.tracks import FeatureTrack
    from densevid.video.extract import extract

__version__ = "0.2.0.dev0"

__all__ = [
    "CaptionResult",
    "Evaluation",
    "Event",
    "FeatureTrack",
    "InputError",
    "__version__",
    "caption",
    "evaluate",
    "extract",
    "extract_many",
    "load",
]

_MODULES = {
    "CaptionResult": "densevid.pipeline.result",
    "Evaluation": "densevid.evaluation.evaluate",
    "Event": "densevid.events",
    "FeatureTrack": "densevid.tracks",
    "InputError": "densevid.errors",
    "caption": "densevid.pipeline.captioner",
    "evaluate": "densevid.evaluation.evaluate",
    "extract": "densevid.video.extract",
    "extract_many": "densevid.data.extraction",
    "load": "densevid.pipeline.captioner",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'densevid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
