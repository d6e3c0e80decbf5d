"""densevid: an untrimmed video becomes a timeline of events, each with a sentence.

The names below load what they need when first used, so `import densevid` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Event": "densevid.events",
    "InputError": "densevid.errors",
    "caption": "densevid.pipeline.captioner",
    "evaluate": "densevid.evaluation.evaluate",
    "extract": "densevid.video.extract",
    "extract_many": "densevid.data.extraction",
    "load": "densevid.pipeline.captioner",
}

__all__ = ["Event", "InputError", "__version__", "caption", "evaluate", "extract", "extract_many", "load"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'densevid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
