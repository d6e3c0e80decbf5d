"""VideoCaptioner: one model, from a video file to events. Features and events come from the cache where they are there.

`densevid.load()` gives one, `densevid.caption(video)` uses one for a single call, the `caption` command one for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import densevid
from densevid.artifacts import fingerprint, hash_of
from densevid.captioning.cache import Cache, CachedTrack, code_key, content_key, usual_cache
from densevid.captioning.chosen_events import Choice, Span, chosen_events
from densevid.captioning.installed_models import InstalledModel, find_model
from densevid.errors import InputError
from densevid.events import Event
from densevid.progress import Watch, unwatched

if TYPE_CHECKING:
    from densevid.checkpoint import LoadedModel
    from densevid.data.feature_source import FeatureSource
    from densevid.inference.captioner import Captioner
    from densevid.tracks import FeatureTrack
    from densevid.video.extract import Extractor

Device = Literal["auto", "cpu", "cuda"]
PACKAGE = Path(densevid.__file__).parent


class ModelError(InputError):
    """The model itself cannot be used, so no video can be captioned with it."""


@dataclass(frozen=True)
class CaptionedVideo:
    """A video with its events; `file` is None where features were captioned, `warning` what could not be read.

    `content` is the hash of the file, `model_key` that of the model and of the program.
    """

    name: str
    file: Path | None
    duration: float
    events: tuple[Event, ...]
    chosen: str
    model: str
    model_key: str
    warning: str | None = None
    content: str | None = None


@dataclass(frozen=True)
class _FoundEvents:
    """What the cache keeps of a captioned file."""

    duration: float
    warning: str | None
    events: tuple[Event, ...]

    @classmethod
    def of(cls, plain: dict[str, Any] | None) -> _FoundEvents | None:
        """Back from plain values; None if they are not what was kept."""
        try:
            events = tuple(Event(*row) for row in plain["events"]) if plain else ()
            return cls(float(plain["duration"]), plain["warning"], events) if plain else None
        except (KeyError, TypeError, InputError):
            return None

    def as_plain(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        rows = [(event.start, event.end, event.sentence, event.score) for event in self.events]
        return {"duration": self.duration, "warning": self.warning, "events": rows}


class VideoCaptioner:
    """A model that captions video files. Nothing heavy is loaded before it is needed."""

    def __init__(self, model: InstalledModel, *, device: Device = "auto", cache: Cache | None = None) -> None:
        self.model, self.device = model, device
        self.cache = cache if cache is not None else usual_cache()

    def caption(
        self,
        video: Path | str | FeatureTrack,
        *,
        top: int | None = None,
        dense: bool = False,
        segments: Sequence[Span] | None = None,
    ) -> list[Event]:
        """The events of a video file or a feature track, in the order of time: a short list, `top` N at most, all of
        them (`dense`), or what happens in given spans of seconds.
        """
        choice = Choice(top, dense, None if segments is None else tuple(segments))
        if isinstance(video, Path | str):
            return list(self.caption_file(Path(video), Path(video).stem, choice).events)
        return self.caption_track(video, choice)

    def caption_file(self, path: Path, name: str, choice: Choice, watch: Watch = unwatched) -> CaptionedVideo:
        """A video file with its events."""
        content = content_key(path) if path.is_file() else None
        key = content and hash_of({"video": content, "model": self.model_key, "choice": repr(choice)})
        known = _FoundEvents.of(self.cache.events(key)) if key else None
        if known is None:
            known = self._found_events(path, content, choice, watch)
            if key:
                self.cache.keep_events(key, known.as_plain())
        for stage in ("decode", "features", "events", "sentences"):
            watch(stage, 1.0)
        made_by = (choice.text, self.model.name, self.model_key)
        return CaptionedVideo(name, path, known.duration, known.events, *made_by, known.warning, content)

    def caption_from(self, source: FeatureSource, video: str, choice: Choice) -> CaptionedVideo:
        """A video of a feature store with its events."""
        track = source.track(video)
        events = tuple(self.caption_track(track, choice))
        return CaptionedVideo(video, None, _seconds(track), events, choice.text, self.model.name, self.model_key)

    def caption_track(self, track: FeatureTrack, choice: Choice, watch: Watch = unwatched) -> list[Event]:
        """The events of a track, which must be of the model's own recipe."""
        recipe = self.loaded.recipe
        if track.recipe is not None and recipe is not None and track.recipe != recipe.id:
            raise InputError(f"the features were made with recipe {track.recipe}, the model reads {recipe.id}")
        watch("events", 0.0)
        return chosen_events(self.captioner, track, choice)

    def check(self, source: FeatureSource) -> str | None:
        """Raise unless the model can read this source; a line of warning if that cannot be known."""
        from densevid.data.feature_source import check_recipe

        features = self.loaded.config.features
        streams = tuple(zip(features.streams, features.widths, strict=True))
        return check_recipe(self.loaded.recipe, streams, source)

    @cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model folder."""
        from densevid.checkpoint import load_model

        with _about_the_model():
            return load_model(self.model.folder)

    @cached_property
    def captioner(self) -> Captioner:
        """The network, on its device."""
        import torch

        from densevid.inference.captioner import Captioner

        there = torch.cuda.is_available()
        if self.device == "cuda" and not there:
            raise ModelError("--device cuda: this machine has no usable CUDA device")
        return Captioner(self.loaded, device="cuda" if there and self.device != "cpu" else "cpu")

    @cached_property
    def extractor(self) -> Extractor:
        """What makes the model's own kind of features from a video."""
        from densevid.video.recipes import extractor_of

        loaded = self.loaded
        if loaded.recipe is None:
            raise ModelError(f"{self.model.folder}: does not say how its features are made; give it a feature store")
        with _about_the_model():
            return extractor_of(loaded.recipe, loaded.reduction, device=self.device)

    @cached_property
    def model_key(self) -> str:
        """What decides about the events besides the video: the model's files and the program itself."""
        files = {file.name: fingerprint(file) for file in sorted(self.model.folder.iterdir()) if file.is_file()}
        rooms = [PACKAGE / room for room in ("captioning", "inference", "model", "video")]
        return hash_of({"files": files, "densevid": densevid.__version__, "code": code_key(rooms)})

    def _found_events(self, path: Path, content: str | None, choice: Choice, watch: Watch) -> _FoundEvents:
        """Extract what is missing and run the network."""
        made = self._track(path, content, watch)
        events = tuple(self.caption_track(made.track, choice, watch))
        return _FoundEvents(_seconds(made.track), made.warning, events)

    def _track(self, path: Path, content: str | None, watch: Watch) -> CachedTrack:
        recipe = self.extractor.recipe.id
        cached = self.cache.track(content, recipe) if content else None
        if cached is None:
            cached = CachedTrack(*self.extractor.extract(path, watch))
            if content:
                self.cache.keep_track(content, recipe, cached)
        watch("decode", 1.0)
        watch("features", 1.0)
        return cached


def _seconds(track: FeatureTrack) -> float:
    return track.duration or float(track.seconds(len(track)))


@contextmanager
def _about_the_model() -> Iterator[None]:
    """What goes wrong in here is the model's fault, not a video's."""
    try:
        yield
    except InputError as error:
        raise ModelError(str(error)) from error


def load(model: str | Path | None = None, *, device: Device = "auto") -> VideoCaptioner:
    """The model that comes with densevid, another by its name (`densevid models` lists them), or one by its folder."""
    captioner = VideoCaptioner(find_model(model), device=device)
    assert captioner.loaded
    return captioner


def caption(
    video: Path | str, *, model: str | Path | None = None, top: int | None = None, dense: bool = False
) -> list[Event]:
    """The events of a video file, in the order of time; `load` the model once to caption several."""
    return VideoCaptioner(find_model(model)).caption(video, top=top, dense=dense)
