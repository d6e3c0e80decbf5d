"""VideoCaptioner: one model, from a video file to a CaptionResult, straight down.

    request -> features -> proposals -> rescoring -> selection -> masks -> sentences -> CaptionResult

Features and results come from the cache where it has them. `densevid.load()` returns a captioner, `densevid.caption()`
uses one for a single call, and the `caption` command one for all of its videos.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from densevid.device import Device
from densevid.errors import InputError
from densevid.events import Event
from densevid.export.document import TimedMask
from densevid.io import hash_of
from densevid.pipeline.cache import Cache, CachedTrack, content_key, default_cache, track_key
from densevid.pipeline.lazy_model import LazyModel
from densevid.pipeline.model_registry import InstalledModel, find_model
from densevid.pipeline.request import EventRequest, Span, beyond_text
from densevid.pipeline.result import FORMAT, CaptionResult, Detection, shown_name
from densevid.progress import ProgressCallback, no_progress
from densevid.video.inputs import local_path, stem_of

if TYPE_CHECKING:
    from densevid.data.sources import FeatureSource
    from densevid.inference.explain import Explanation
    from densevid.inference.proposals import ProposedBatch
    from densevid.inference.sentence_evidence import SentenceEvidence
    from densevid.tracks import FeatureTrack

MOST_MASKS = 100  # a dense list has hundreds of events, and a page with the masks of all would be large


class VideoCaptioner(LazyModel):
    """Captions video files and feature tracks with one model, which is loaded when it is first needed.

    Args:
        model: An installed model, from `find_model`.
        device: "cpu", "cuda", or "auto" for CUDA where there is one.
        cache: Where features and results are kept; the user's own cache unless given, `Cache(None)` for none.
        fast: Extract features without the actions, where the model reads them.

    Raises:
        ArgumentError: The device is unknown, or there is no such device.
    """

    def __init__(
        self, model: InstalledModel, *, device: Device = "auto", cache: Cache | None = None, fast: bool = False
    ) -> None:
        super().__init__(model, device, fast=fast)
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
        all_words: bool = False,
    ) -> CaptionResult:
        """Find the events of a video and write a sentence for each.

        At most one of `top`, `dense` and `segments` may be given; without them the result is the default summary: the
        few events that the model is confident about, or none.

        Args:
            video: The path of a video file, or a track of the features that the model reads.
            top: At most so many events that hardly overlap, however unsure the model is of them.
            dense: Every proposal, overlapping ones too.
            segments: Spans `(start, end)` in seconds to caption instead of proposed ones.
            all_words: The full sentence of every event, however unsure the model is of it.

        Returns:
            The result, a sequence of the events in the order of time; of `segments`, in their order and with score 1.

        Raises:
            InputError: The file cannot be read as a video, the features are not those that the model reads, or an
                argument is out of range.
        """
        return _checked(self._caption(video, EventRequest.of(top, dense, segments, all_words)))

    def _caption(self, video: Path | str | FeatureTrack, request: EventRequest) -> CaptionResult:
        from densevid.tracks import FeatureTrack

        if isinstance(video, FeatureTrack):
            return self.caption_track(video, request)
        if not isinstance(video, Path | str):
            raise InputError(f"caption takes the path of a video or a FeatureTrack, got {type(video).__name__}")
        path = local_path(video)
        return self.caption_file(path, stem_of(path), request)

    def caption_file(
        self,
        path: Path,
        name: str,
        request: EventRequest,
        on_progress: ProgressCallback = no_progress,
        *,
        explain: bool = False,
    ) -> CaptionResult:
        """Caption a video file.

        Args:
            path: The video.
            name: Its id.
            request: Which events.
            on_progress: Called with a stage and the share of it that is done.
            explain: Whether to look into the model, too: `CaptionResult.explanation`.
        """
        content = content_key(path)
        blank = self._blank(name, request, path, content)
        result = self._cached(blank, content)
        if result is None:
            result = self._captioned(blank, self.track(path, on_progress, content), on_progress, explain=explain)
            self._keep(result, content)
        elif explain:
            track = self.track(path, on_progress, content).track
            result = replace(result, explanation=self.explanation(result, track))
        result = self._as_requested(result)
        for stage in ("decode", "features", "events", "sentences"):
            on_progress(stage, 1.0)
        return result

    def caption_from(
        self, source: FeatureSource, video: str, name: str, request: EventRequest, *, explain: bool = False
    ) -> CaptionResult:
        """Caption a video of a feature store."""
        track = self.track_from(source, video)
        blank, content = self._blank(name, request), track_key(track)
        result = self._cached(blank, content)
        if result is None:
            result = self._captioned(blank, CachedTrack(track), no_progress, explain=explain)
            self._keep(result, content)
        elif explain:
            result = replace(result, explanation=self.explanation(result, track))
        return self._as_requested(result)

    def caption_track(self, track: FeatureTrack, request: EventRequest, name: str = "the track") -> CaptionResult:
        """Caption a feature track of the model's own recipe, or of the recipe before its reduction."""
        track, recipe = self.as_read(track), self.loaded.recipe
        if track.recipe is not None and recipe is not None and track.recipe != recipe.id:
            raise InputError(f"the features were made with recipe {track.recipe}, the model reads {recipe.id}")
        blank = self._blank(name, request)
        return self._as_requested(self._captioned(blank, CachedTrack(track), no_progress, explain=False))

    def track(self, path: Path, on_progress: ProgressCallback = no_progress, content: str | None = None) -> CachedTrack:
        """The features of a video file as the model reads them, from the cache where it has them."""
        from densevid.video.container import require_video

        content = content or content_key(path)
        require_video(path)  # before a model is loaded for it
        recipe = self.extractor.recipe.id
        cached = self.cache.track(content, recipe, self.extractor.absent) if content else None
        if cached is None:
            cached = CachedTrack(*self.extractor.extract(path, on_progress))
            if content:
                self.cache.keep_track(content, recipe, cached)
        on_progress("decode", 1.0)
        on_progress("features", 1.0)
        return cached

    def track_from(self, source: FeatureSource, video: str) -> FeatureTrack:
        """The features of a video of a store as the model reads them."""
        return self.as_read(source.track(video))

    def explanation(
        self, result: CaptionResult, track: FeatureTrack, kept: Mapping[int, ProposedBatch] | None = None
    ) -> Explanation:
        """Masks and attention of the most confident events; `kept` windows are not computed again."""
        from densevid.inference.explain import explain
        from densevid.inference.explain_window import ProposalRef

        pairs = zip(result.detections, result.events, strict=True)
        refs = [ProposalRef(detection.window, detection.anchor, event) for detection, event in pairs]
        return explain(self.loaded, track, refs, kept=kept)

    def _blank(
        self, name: str, request: EventRequest, path: Path | None = None, content: str | None = None
    ) -> CaptionResult:
        """The result of a video before it is captioned."""
        return CaptionResult(
            video=shown_name(name),
            title=shown_name(path.name if path else name),
            path=path,
            duration=0.0,
            events=(),
            detections=(),
            request=request,
            model=self.model.name,
            model_key=self.model_key,
            content=content,
        )

    def _key(self, content: str, request: EventRequest) -> str:
        request = replace(request, all_words=False)  # what is kept has the full sentences, too
        about = {"video": content, "model": self.model_key, "request": repr(request), "format": FORMAT}
        return hash_of(about | ({"fast": True} if self.fast else {}))

    def _cached(self, blank: CaptionResult, content: str | None) -> CaptionResult | None:
        """The result that the cache has for this content, model and request."""
        kept = self.cache.events(self._key(content, blank.request)) if content else None
        fields = CaptionResult.fields_of_plain(kept) if kept else None
        return None if fields is None else replace(blank, **fields)

    def _keep(self, result: CaptionResult, content: str | None) -> None:
        if content:
            self.cache.keep_events(self._key(content, result.request), result.as_plain())

    def _captioned(
        self, blank: CaptionResult, made: CachedTrack, on_progress: ProgressCallback, *, explain: bool
    ) -> CaptionResult:
        """The walk of one video: from its features to its result."""
        began, track = perf_counter(), made.track
        duration = track.duration or float(track.seconds(len(track)))
        request, left_out, cut = blank.request.within(duration)
        notes = [made.warning, None if self.fast else _note_of_absent(track)]
        kept: Mapping[int, ProposedBatch] = {}
        if request.segments is None:
            events, detections, kept = self._detected(track, request, on_progress, keep=explain)
        else:
            from densevid.inference.segments import unseen_text

            events, detections, unseen = self._given(track, request.segments)
            if unseen:
                notes.append(unseen_text(unseen))
        if cut:
            are = "is" if cut == 1 else "are"
            notes.append(f"{cut} of the given segments {are} cut at its end, {duration:.1f} s")
        result = replace(
            blank,
            duration=duration,
            events=events,
            detections=detections,
            warnings=tuple(filter(None, notes)),
            incomplete=made.warning is not None,
            left_out=left_out,
        )
        if explain:
            result = replace(result, explanation=self.explanation(result, track, kept))
        return replace(result, timings={"events": perf_counter() - began})

    def _detected(
        self, track: FeatureTrack, request: EventRequest, on_progress: ProgressCallback, *, keep: bool
    ) -> tuple[tuple[Event, ...], tuple[Detection, ...], Mapping[int, ProposedBatch]]:
        """Propose, select and caption: the events in the order of time, how each was found, and windows to explain."""
        from densevid.inference.long_video import LongVideoCaptioner

        captioner = LongVideoCaptioner.build(
            self.captioner, dense=request.dense, top=request.top, masks=True, keep=keep, on_progress=on_progress
        )
        on_progress("events", 0.0)
        video = captioner.finished(next(captioner.captioned([track]))).by_time()
        steps = min(len(track), captioner.window)
        masked = set(np.argsort(-video.score_P, kind="stable")[:MOST_MASKS].tolist())
        detections = []
        for place, (first, anchor) in enumerate(zip(video.first_P.tolist(), video.anchor_P.tolist(), strict=True)):
            mask = None
            if place in masked:
                start, end = track.seconds(np.array([first, first + steps])).tolist()
                mask = TimedMask(start, end, tuple(video.masks[place].astype(np.float64).round(3).tolist()))
            confidence = None if captioner.calibration is None else float(video.score_P[place])
            detections.append(Detection(first, anchor, float(video.proposal_score_P[place]), confidence, mask))
        return *self._shown(video.events(), video.evidence, detections), captioner.kept

    def _given(
        self, track: FeatureTrack, segments: tuple[Span, ...]
    ) -> tuple[tuple[Event, ...], tuple[Detection, ...], int]:
        """Caption given spans; and how many of them begin after all that the model reads."""
        from densevid.inference.explain_window import GIVEN
        from densevid.inference.segments import captioned_segments, first_steps, unseen

        captioned = next(captioned_segments(self.captioner, [(track, segments)]))
        detections = [Detection(first, GIVEN) for first in first_steps(self.captioner, track, segments)]
        shown = self._shown(captioned.events, captioned.evidence, detections)
        return *shown, unseen(self.captioner, track, segments)

    def _shown(
        self, events: Sequence[Event], evidence: Sequence[SentenceEvidence], detections: Sequence[Detection]
    ) -> tuple[tuple[Event, ...], tuple[Detection, ...]]:
        """Events with the sentences that are sure enough, if the model knows; and the confidence in the full ones."""
        confidence = self.captioner.sentence_confidence
        if confidence is None:
            return tuple(events), tuple(detections)
        pairs = zip(detections, events, strict=True)
        found = tuple(replace(detection, sentence_score=event.sentence_score) for detection, event in pairs)
        shown = (confidence.shown(known).put_on(event) for event, known in zip(events, evidence, strict=True))
        return tuple(shown), found

    def _as_requested(self, result: CaptionResult) -> CaptionResult:
        """What the cache keeps, with the full sentences if they are wanted, and with the name of the model."""
        result = result.with_all_words() if result.request.all_words else result
        name = self.model.name
        named = (replace(e, sentence_model=None if e.sentence_score is None else name) for e in result.events)
        return replace(result, events=tuple(named))


def load(model: str | Path | None = None, *, device: Device = "auto", fast: bool = False) -> VideoCaptioner:
    """Load a model once, to caption several videos with it.

        >>> captioner = densevid.load()
        >>> len(captioner.caption("video.mp4", top=2)) <= 2
        True
        >>> captioner.caption("video.mp4", segments=[(0.5, 2.5)])[0].end
        2.5

    Args:
        model: A name that `densevid models` lists or the path of a model folder; None is the default model.
        device: "cpu", "cuda", or "auto" for a GPU where there is one.
        fast: Leave out the actions where the model reads them: much faster, with poorer sentences.

    Returns:
        A captioner with a method `caption(video, top=, dense=, segments=)`.

    Raises:
        InputError: There is no such model, its folder is damaged, or there is no such device.
    """
    captioner = VideoCaptioner(find_model(model), device=device, fast=fast)
    _ = captioner.loaded  # now, so that errors of the model are raised here
    return captioner


def caption(
    video: Path | str | FeatureTrack,
    *,
    model: str | Path | None = None,
    top: int | None = None,
    dense: bool = False,
    segments: Sequence[Span] | None = None,
    all_words: bool = False,
    device: Device = "auto",
    fast: bool = False,
) -> CaptionResult:
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
        all_words: The full sentence of every event, however unsure the model is of it.
        device: "cpu", "cuda", or "auto" for a GPU where there is one.
        fast: Leave out the actions where the model reads them: much faster, with poorer sentences.

    Returns:
        The result, a sequence of the events in the order of time; of `segments`, in their order and with score 1.

    Raises:
        InputError: The model or the video cannot be used, or an argument is out of range.
    """
    request = EventRequest.of(top, dense, segments, all_words)
    return _checked(VideoCaptioner(find_model(model), device=device, fast=fast)._caption(video, request))


def _note_of_absent(track: FeatureTrack) -> str | None:
    """A line about streams of the model's features that the track does not have."""
    if track.absent == ("actions",):
        from densevid.video.weights import GET_I3D

        return f"captioned without the actions in it, so the sentences are poorer; `{GET_I3D}` installs their network"
    return f"captioned without the stream {', '.join(track.absent)}; see `densevid doctor`" if track.absent else None


def _checked(result: CaptionResult) -> CaptionResult:
    """The result for Python: its warnings are raised as warnings where `caption` was called."""
    if result.left_out:
        raise InputError(beyond_text(result.left_out, result.duration))
    if result.warning:
        warnings.warn(f"{result.title}: {result.warning}", stacklevel=3)
    return result
