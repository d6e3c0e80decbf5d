"""VideoCaptioner: one model, from a video file to events. Features and events come from the cache where they are there.

`densevid.load()` gives one, `densevid.caption(video)` uses one for a single call, the `caption` command one for all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import densevid
from densevid.errors import ArgumentError, InputError
from densevid.events import Event
from densevid.io import fingerprint, hash_of
from densevid.pipeline.cache import Cache, CachedTrack, code_key, content_key, default_cache, track_key
from densevid.pipeline.model_registry import InstalledModel, find_model
from densevid.pipeline.result import FoundEvents, VideoCaptions, shown_name
from densevid.pipeline.selection import ChosenEvents, EventRequest, Span, beyond_text, chosen_events
from densevid.progress import ProgressCallback, no_progress
from densevid.video.inputs import local_path, stem_of

if TYPE_CHECKING:
    from densevid.checkpoint import LoadedModel
    from densevid.data.sources import FeatureSource
    from densevid.export.document import Figure
    from densevid.inference.captioner import Captioner
    from densevid.tracks import FeatureTrack
    from densevid.video.extract import Extractor

Device = Literal["auto", "cpu", "cuda"]
PACKAGE = Path(densevid.__file__).parent


class ModelError(InputError):
    """The model itself cannot be used, so no video can be captioned with it."""


class VideoCaptioner:
    """A model that captions video files. Nothing heavy is loaded before it is needed."""

    def __init__(self, model: InstalledModel, *, device: Device = "auto", cache: Cache | None = None) -> None:
        self.model, self.device = model, device
        if device not in get_args(Device):
            raise ArgumentError(f"{{device}} must be one of {', '.join(get_args(Device))}, got {device!r:.40}")
        if device == "cuda":  # said even where the cache knows all: what is asked for is not there
            self._require_gpu()
        self.cache = cache if cache is not None else default_cache()

    def __repr__(self) -> str:
        return f'<VideoCaptioner {self.model.name}, device {self.device}: .caption("video.mp4") gives its events>'

    def caption(
        self,
        video: Path | str | FeatureTrack,
        *,
        top: int | None = None,
        dense: bool = False,
        segments: Sequence[Span] | None = None,
    ) -> list[Event]:
        """Find the events of a video and write a sentence for each.

        At most one of `top`, `dense` and `segments` may be given; without them the result is the default summary: the
        few events that the model is confident about, or none.

        Args:
            video: The path of a video file, or a track of the features that the model reads.
            top: At most so many events that hardly overlap, however unsure the model is of them.
            dense: Every proposal, overlapping ones too.
            segments: Spans `(start, end)` in seconds to caption instead of proposed ones.

        Returns:
            The events in the order of time; of `segments`, in their order and with score 1.

        Raises:
            InputError: The file cannot be read as a video, the features are not those that the model reads, or an
                argument is out of range.
        """
        return _events(self._told(video, EventRequest.of(top, dense, segments)))

    def _told(self, video: Path | str | FeatureTrack, choice: EventRequest) -> VideoCaptions | FoundEvents:
        from densevid.tracks import FeatureTrack

        if isinstance(video, FeatureTrack):
            return self._find(video, None, choice, no_progress)
        if not isinstance(video, Path | str):
            raise InputError(f"caption takes the path of a video or a FeatureTrack, got {type(video).__name__}")
        path = local_path(video)
        return self.caption_file(path, stem_of(path), choice)

    def caption_file(
        self, path: Path, name: str, choice: EventRequest, on_progress: ProgressCallback = no_progress
    ) -> VideoCaptions:
        """A video file with its events."""
        content = content_key(path)

        def find() -> FoundEvents:
            made = self.track(path, on_progress, content)
            return self._find(made.track, made.warning, choice, on_progress)

        found = self._remembered(content, choice, find)
        for stage in ("decode", "features", "events", "sentences"):
            on_progress(stage, 1.0)
        return self._captions(name, path, found, choice, content)

    def caption_from(self, source: FeatureSource, video: str, name: str, choice: EventRequest) -> VideoCaptions:
        """A video of a feature store with its events."""
        track = self.track_from(source, video)
        found = self._remembered(track_key(track), choice, lambda: self._find(track, None, choice, no_progress))
        return self._captions(name, None, found, choice, None)

    def caption_track(
        self, track: FeatureTrack, choice: EventRequest, on_progress: ProgressCallback = no_progress
    ) -> ChosenEvents:
        """The events of a track of the model's own recipe, or of that before the reduction."""
        recipe = self.loaded.recipe
        track = self._as_read(track)
        if track.recipe is not None and recipe is not None and track.recipe != recipe.id:
            raise InputError(f"the features were made with recipe {track.recipe}, the model reads {recipe.id}")
        return chosen_events(self.loaded, self.captioner, track, choice, on_progress)

    def track(self, path: Path, on_progress: ProgressCallback = no_progress, content: str | None = None) -> CachedTrack:
        """The features of a video file as the model reads them, from the cache where they are there."""
        from densevid.video.container import require_video

        content = content or content_key(path)
        require_video(path)  # before a model is loaded for it
        recipe = self.extractor.recipe.id
        cached = self.cache.track(content, recipe) if content else None
        if cached is None:
            cached = CachedTrack(*self.extractor.extract(path, on_progress))
            if content:
                self.cache.keep_track(content, recipe, cached)
        on_progress("decode", 1.0)
        on_progress("features", 1.0)
        return cached

    def track_from(self, source: FeatureSource, video: str) -> FeatureTrack:
        """The features of a video of a store as the model reads them."""
        return self._as_read(source.track(video))

    def explained(self, captioned: VideoCaptions, track: FeatureTrack) -> tuple[Figure, ...]:
        """Figures of what the model saw where it found the events: masks, and where words looked; it may be none."""
        from densevid.export.explanation_plots import explanation_figures
        from densevid.inference.explain import explain
        from densevid.inference.explain_window import ProposalRef

        found = zip(captioned.origins, captioned.events, strict=True)
        told = [ProposalRef(first, anchor, event) for (first, anchor), event in found]
        return explanation_figures(explain(self.loaded, track, told))

    def check(self, source: FeatureSource) -> str | None:
        """Raise unless the model can read this source; a line of warning if that cannot be known."""
        from densevid.data.sources import check_recipe

        if self._reduces(source.recipe.id if source.recipe else None):
            return None
        features = self.loaded.config.features
        streams = tuple(zip(features.streams, features.widths, strict=True))
        return check_recipe(self.loaded.recipe, streams, source)

    @cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model folder."""
        from densevid.checkpoint import load_model

        with _about_the_model():
            loaded = load_model(self.model.folder)
            self._require_calibration(loaded)
        return loaded

    @cached_property
    def captioner(self) -> Captioner:
        """The network, on its device."""
        import torch

        from densevid.inference.captioner import Captioner

        on_gpu = self.device != "cpu" and torch.cuda.is_available()
        return Captioner(self.loaded, device="cuda" if on_gpu else "cpu")

    @cached_property
    def extractor(self) -> Extractor:
        """What makes the model's own kind of features from a video."""
        from densevid.video.extract import extractor_of

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

    @staticmethod
    def _require_gpu() -> None:
        import torch

        if not torch.cuda.is_available():
            raise ArgumentError("{device} cuda: this machine has no usable CUDA device")

    def _require_calibration(self, loaded: LoadedModel) -> None:
        """Before any video: a wrong one is the fault of none, nor is it that the folder lacks what it asks."""
        from densevid.inference.confidence import Calibration, totals_of

        try:
            if loaded.calibration is not None:
                totals_of(Calibration.of_table(loaded.calibration).asks, loaded.actionness)
        except InputError as error:
            raise InputError(f"{self.model.folder}: {error}") from error

    def _as_read(self, track: FeatureTrack) -> FeatureTrack:
        """A track as the model reads it, reduced where it is not yet."""
        if self._reduces(track.recipe) and self.loaded.reduction and self.loaded.recipe:
            return self.loaded.reduction.apply_to_track(track, self.loaded.recipe)
        return track

    def _reduces(self, recipe: str | None) -> bool:
        """Whether features of a recipe are what the model reads before it is reduced."""
        from densevid.tracks import FeatureRecipe

        own = self.loaded.recipe
        if self.loaded.reduction is None or own is None:
            return False
        return recipe == FeatureRecipe({key: value for key, value in own.table.items() if key != "reduction"}).id

    def _remembered(self, content: str | None, choice: EventRequest, find: Callable[[], FoundEvents]) -> FoundEvents:
        """The events of what holds this content: those of the cache, or found now and kept."""
        if content is None:
            return find()
        key = hash_of({"video": content, "model": self.model_key, "choice": repr(choice)})
        found = FoundEvents.of(self.cache.events(key))
        if found is None:
            found = find()
            self.cache.keep_events(key, found.as_plain())
        return found

    def _find(
        self, track: FeatureTrack, warning: str | None, choice: EventRequest, on_progress: ProgressCallback
    ) -> FoundEvents:
        duration = track.duration or float(track.seconds(len(track)))
        fitted = choice.within(duration)
        chosen = self.caption_track(track, fitted.choice, on_progress)
        problems = [warning, self._unseen(track, fitted.choice)]
        if fitted.cut:
            are = "is" if fitted.cut == 1 else "are"
            problems.append(f"{fitted.cut} of the given segments {are} cut at its end, {duration:.1f} s")
        return FoundEvents(duration, "; ".join(filter(None, problems)) or None, chosen, fitted.beyond)

    def _unseen(self, track: FeatureTrack, choice: EventRequest) -> str | None:
        """A line where some of the given spans lie after all that is read."""
        from densevid.inference.segments import unseen

        count = unseen(self.captioner, track, choice.segments) if choice.segments else 0
        told = f"{count} of the given segments begin after all that the model reads; the last step stands in"
        return told if count else None

    def _captions(
        self, name: str, path: Path | None, found: FoundEvents, choice: EventRequest, content: str | None
    ) -> VideoCaptions:
        return VideoCaptions(
            name=shown_name(name),
            title=shown_name(path.name if path else name),
            file=path,
            duration=found.duration,
            events=found.events,
            masks=found.chosen.masks,
            chosen=choice.text,
            model=self.model.name,
            model_key=self.model_key,
            warning=found.warning,
            content=content,
            judged=choice.segments is None,
            left_out=found.left_out,
            origins=found.chosen.origins,
        )


@contextmanager
def _about_the_model() -> Iterator[None]:
    """What goes wrong in here is the model's fault, not a video's."""
    try:
        yield
    except InputError as error:
        raise ModelError(str(error)) from error


def load(model: str | Path | None = None, *, device: Device = "auto") -> VideoCaptioner:
    """Load a model once, to caption several videos with it.

        >>> captioner = densevid.load()
        >>> len(captioner.caption("video.mp4", top=2)) <= 2
        True
        >>> captioner.caption("video.mp4", segments=[(0.5, 2.5)])[0].end
        2.5

    Args:
        model: A name that `densevid models` lists or the path of a model folder; None is the default model.
        device: "cpu", "cuda", or "auto" for a GPU where there is one.

    Returns:
        A captioner with a method `caption(video, top=, dense=, segments=)`.

    Raises:
        InputError: There is no such model, its folder is damaged, or there is no such device.
    """
    captioner = VideoCaptioner(find_model(model), device=device)
    _ = captioner.loaded  # now, so that whoever loads a model hears what is wrong with it
    return captioner


def caption(
    video: Path | str | FeatureTrack,
    *,
    model: str | Path | None = None,
    top: int | None = None,
    dense: bool = False,
    segments: Sequence[Span] | None = None,
    device: Device = "auto",
) -> list[Event]:
    """Find the events of one video and write a sentence for each; `load` captions several with one model.

        >>> events = densevid.caption("video.mp4", top=3)
        >>> len(events) <= 3 and all(0 <= event.start < event.end for event in events)
        True

    Args:
        video: The path of a video file, or a track of the features that the model reads (see `extract`).
        model: A name that `densevid models` lists or the path of a model folder; None is the default model.
        top: At most so many events that hardly overlap, however unsure the model is of them.
        dense: Every proposal, overlapping ones too.
        segments: Spans `(start, end)` in seconds to caption instead of proposed ones.
        device: "cpu", "cuda", or "auto" for a GPU where there is one.

    Returns:
        The events in the order of time; of `segments`, in their order and with score 1.

    Raises:
        InputError: The model or the video cannot be used, or an argument is out of range.
    """
    choice = EventRequest.of(top, dense, segments)
    return _events(VideoCaptioner(find_model(model), device=device)._told(video, choice))


def _events(told: VideoCaptions | FoundEvents) -> list[Event]:
    """What Python gets of a captioned video; what was lost on the way is a warning where `caption` was called."""
    if told.left_out:
        raise InputError(beyond_text(told.left_out, told.duration))
    if told.warning:
        name = told.title if isinstance(told, VideoCaptions) else "the track"
        warnings.warn(f"{name}: {told.warning}", stacklevel=3)
    return list(told.events)
