"""Captioner: feature tracks of at most one window become events, in two steps that a caller can choose between.

    inputs -> propose (encode, propose, rescore, suppress) -> a selection -> generate (masks, encode again, words)

Videos of different lengths share a batch, and so do their events; neither changes any result. Up to the selection every
number is float32 (in TF32 products unless `precision = "float32"`), so that the same events are found; the encoding of
events and their words, nearly all of the work, are computed in the precision that is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from densevid.checkpoint import LoadedModel, load_model
from densevid.errors import InputError
from densevid.events import Event
from densevid.inference.batches import (
    Batches,
    CaptionedSpans,
    CaptionedVideo,
    DeviceBatch,
    DeviceUploader,
    ModelInput,
    PendingCaptions,
    require_numbers,
)
from densevid.inference.compat import behavior_of
from densevid.inference.confidence import Calibration
from densevid.inference.generator import GeneratorLimits, build_generators
from densevid.inference.nms import Choose
from densevid.inference.proposals import ProposalBatch, ProposedBatch, event_masks
from densevid.inference.reranking import EventFeatures, Sentences, rerank
from densevid.inference.search import Beams
from densevid.inference.sentence_confidence import SentenceConfidence, with_sentence_scores
from densevid.inference.sentence_evidence import BeamEvidence, EvidenceTexts, SentenceEvidence
from densevid.inference.windows import exceeds
from densevid.progress import ProgressCallback, Stages, no_progress
from densevid.tracks import FeatureTrack

Segments = Sequence[tuple[float, float]]
Precision = Literal["float32", "bfloat16", "float16"]


@contextmanager
def float32_products(*, exact: bool) -> Iterator[None]:
    """Inside, a GPU computes exact float32 products and finds the proposals of a CPU; otherwise in TF32."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = convolutions.allow_tf32, products.allow_tf32
    convolutions.allow_tf32 = products.allow_tf32 = not exact
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32 = before


class Captioner:
    """Captions videos of at most one window with one trained model.

    Args:
        loaded: The model, as `load_model` returns it.
        device: Where to compute.
        precision: Of the encoding of events and of words; bfloat16 on CUDA, else float32, unless given.
        steps_at_once: The most steps of video in a batch, which bounds memory; what suits the device unless given.
        limits: How many steps of events are encoded and decoded together.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        device: str | torch.device = "cpu",
        precision: Precision | None = None,
        steps_at_once: int | None = None,
        limits: GeneratorLimits | None = None,
    ) -> None:
        self.config, self.loaded = loaded.config, loaded
        self.behavior = behavior_of(loaded.config)
        self.vocabulary = loaded.vocabulary
        self.detokenize = self.behavior.detokenizer(loaded.vocabulary)
        self.device = torch.device(device)
        self.model = loaded.model.to(self.device).eval()
        self.precision = precision or default_precision(self.device)
        self.ahead = self.device.type == "cuda"
        self.steps_at_once = steps_at_once
        half = self.precision != "float32"
        caption_model = deepcopy(self.model).to(getattr(torch, self.precision)) if half else self.model
        caption_model.tagger = self.model.tagger  # its classifiers decide, so they stay float32
        self.uploads = DeviceUploader(self.behavior, self.device)
        self.word_prior, self.actionness = loaded.word_prior_on(self.device), loaded.actionness
        self.proposal_generator, self.caption_generator = build_generators(
            self.model, caption_model, self.behavior, limits, self.word_prior
        )
        self.listen(Stages())

    @classmethod
    def open(
        cls, folder: Path | str, *, device: str | torch.device = "cpu", precision: Precision | None = None
    ) -> Captioner:
        """Load a model folder."""
        return cls(load_model(folder), device=device, precision=precision)

    def listen(self, stages: Stages) -> None:
        """Have `stages` entered and left around each stage of the work."""
        self.stages = self.proposal_generator.stages = self.caption_generator.stages = stages

    @cached_property
    def calibration(self) -> Calibration | None:
        """The model's calibration, if it has one."""
        return None if self.loaded.calibration is None else Calibration.of_table(self.loaded.calibration)

    @cached_property
    def sentence_confidence(self) -> SentenceConfidence | None:
        """The model's sentence confidence, if it has one."""
        table = self.loaded.sentence_confidence
        return None if table is None else SentenceConfidence.of_table(table)

    @cached_property
    def evidence_texts(self) -> EvidenceTexts:
        """Turns evidence into words."""
        return EvidenceTexts(self.vocabulary, self.detokenize, self.model, self.config.features.streams)

    def caption(self, track: FeatureTrack | ModelInput, *, choose: Choose | None = None) -> list[Event]:
        """Find and caption the events of a video, in the order of selection."""
        return next(self.caption_many([track], choose=choose))

    def caption_many(
        self, tracks: Iterable[FeatureTrack | ModelInput], *, choose: Choose | None = None
    ) -> Iterator[list[Event]]:
        """The events of many videos, in their order, several videos at a time."""
        return (captioned.events() for captioned in self.captioned(tracks, choose=choose))

    def captioned(
        self, tracks: Iterable[FeatureTrack | ModelInput], *, choose: Choose | None = None
    ) -> Iterator[CaptionedVideo]:
        """The same as records in steps; only what `choose` keeps of each batch's selection is captioned."""

        def pending() -> Iterator[PendingCaptions]:
            batches = self.batches()
            for inputs in batches(map(self.read, tracks)):
                batch = self.propose(inputs)
                selection = batch.selection if choose is None else choose(batch.selection)
                captions = self.generate(replace(batch, selection=selection))
                batches.learn(len(inputs), captions.events)
                yield captions

        return self.collect(pending())

    def proposed(self, tracks: Iterable[FeatureTrack | ModelInput]) -> Iterator[tuple[list[ModelInput], ProposedBatch]]:
        """What is proposed in many videos, batch after batch; nothing is captioned."""
        batches = self.batches()
        for inputs in batches(map(self.read, tracks)):
            yield inputs, self.propose(inputs)
            batches.learn(len(inputs), 0)

    @torch.inference_mode()
    def propose(self, inputs: list[ModelInput]) -> ProposedBatch:
        """Encode a batch, propose and select: at least one event a video."""
        with self.stages("upload"):
            uploaded = self.uploads(inputs, self.proposal_generator.padding_multiple(len(inputs)))
        with float32_products(exact=self.precision == "float32"):
            found, selection = self.proposal_generator(self.uploads.arrived(uploaded))
        steps = [len(each.values_TF) for each in inputs]
        return ProposedBatch([each.clock for each in inputs], steps, uploaded, found, selection)

    def with_features(self, batch: ProposedBatch, inputs: list[ModelInput]) -> ProposedBatch:
        """A batch that `ProposedBatch.rows` left without features; `inputs` are those of its videos."""
        uploaded = self.uploads.arrived(self.uploads(inputs, batch.found.proposals.steps))
        if self.model.tagger is None:
            return replace(batch, uploaded=uploaded)
        video = replace(batch.found.video, features_BTF=uploaded.features_BTF)  # tags are predicted from them
        return replace(batch, uploaded=uploaded, found=replace(batch.found, video=video))

    @torch.inference_mode()
    def generate(
        self,
        batch: ProposedBatch,
        *,
        masks: bool = False,
        evidence: bool = False,
        on_progress: ProgressCallback = no_progress,
    ) -> PendingCaptions:
        """Caption the events that a batch's selection keeps, without waiting for the device.

        Args:
            batch: What `propose` returned, its selection possibly replaced.
            masks: Whether to return the event masks.
            evidence: Whether to collect what is known about the sentences even if the model has no confidence in them.
            on_progress: Called with ("sentences", share of them).
        """
        found, selection, uploaded = batch.found, batch.selection, batch.uploaded
        assert uploaded is not None, "see `with_features`"
        with float32_products(exact=self.precision == "float32"):
            with self.stages("choose"):
                rows = selection.kept_BK.nonzero(as_tuple=True)
                video_P, anchor_P, score_P = rows[0], selection.anchor_BK[rows], selection.score_BK[rows]
                network_P, reported_P2 = selection.of_network[rows], selection.reported_BK2[rows]
            mask_PT = cache(lambda: self._masks(found, video_P, anchor_P))
            beams = self.caption_generator.caption_proposals(found, video_P, anchor_P, mask_PT, on_progress)
            sentences = self._best(beams, uploaded, video_P, mask_PT)
            known = self._known(beams, uploaded, video_P, mask_PT) if evidence or self.sentence_confidence else None
            columns = {
                "video_P": video_P,
                "anchor_P": anchor_P,
                "score_P": score_P,
                "network_P": network_P,
                "reported_P2": reported_P2,
                "words_PL": sentences.words_PL,
                "log_probability_P": sentences.log_probability_P,
            }
            columns |= {"mask_PT": mask_PT()} if masks else {}
        with self.stages("download"):
            on_host, arrived = _downloaded(columns | ({} if known is None else known.columns))
            beams_on_host = None if known is None else BeamEvidence(**{name: on_host[name] for name in known.columns})
            captions = {name: on_host[name] for name in columns}
            return PendingCaptions(batch.clocks, batch.steps, arrived, **captions, beams=beams_on_host)

    def collect(self, pending: Iterable[PendingCaptions]) -> Iterator[CaptionedVideo]:
        """Captions as text, video by video; while a GPU works on a batch, the words of the one before become text."""
        waiting: list[PendingCaptions] = []
        try:
            for captions in pending:
                waiting.append(captions)
                if len(waiting) > self.ahead:
                    yield from self._split(waiting.pop(0))
        except Exception:  # what was captioned before a video that fails is not lost
            yield from chain.from_iterable(map(self._split, waiting))
            raise
        yield from chain.from_iterable(map(self._split, waiting))

    def caption_segments(self, track: FeatureTrack | ModelInput, segments: Segments) -> list[Event]:
        """Caption given spans (seconds), which are reported as given, with score 1."""
        return next(self.caption_segments_many([(track, segments)]))

    def caption_segments_many(
        self, videos: Iterable[tuple[FeatureTrack | ModelInput, Segments]]
    ) -> Iterator[list[Event]]:
        """The captions of given spans of many videos, in their order."""
        return (captioned.events for captioned in self.captioned_segments(videos))

    def captioned_segments(
        self, videos: Iterable[tuple[FeatureTrack | ModelInput, Segments]], *, evidence: bool = False
    ) -> Iterator[CaptionedSpans]:
        """The same with what is known about the sentences; see `generate` for `evidence`."""
        given: list[Segments] = []

        def inputs() -> Iterator[ModelInput]:
            for track, segments in videos:
                given.append(segments)
                yield self.read(track)

        for batch in self.batches()(inputs()):
            yield from self._segments(batch, [given.pop(0) for _ in batch], evidence=evidence)

    def batches(self) -> Batches:
        """What groups videos into batches, for one run."""
        return Batches(self.config.model.window, on_gpu=self.ahead, steps=self.steps_at_once)

    def read(self, track: FeatureTrack | ModelInput) -> ModelInput:
        """The first steps of a track, at most a window, checked to be finite.

        Raises:
            InputError: The features hold NaN, infinity or numbers too large for float32.
        """
        if isinstance(track, ModelInput):
            return track
        with self.stages("read"), np.errstate(over="ignore"):
            stored = track.values[: self.config.model.window]
            values = np.require(stored, np.float16 if stored.dtype == np.float16 else np.float32, ["C", "W"])
            extremes = torch.stack(torch.from_numpy(values).aminmax()) if values.size else torch.zeros(2)
        if not bool(extremes.isfinite().all()):  # NaN is both
            raise InputError("its features hold NaN, infinity or numbers too large for float32")
        return ModelInput(values, track.clock)

    def is_long(self, track: FeatureTrack | ModelInput) -> TypeGuard[FeatureTrack]:
        """Whether a video is read in more than one window."""
        return self.behavior.reads_all and exceeds(track, self.config.model.window)

    @property
    def videos_at_once(self) -> int:
        """How many videos of full length make a batch, at least."""
        return max(1, self.batches().steps // self.config.model.window)

    def _masks(self, found: ProposalBatch, video_P: Tensor, anchor_P: Tensor) -> Tensor:
        with self.stages("mask"):
            return event_masks(self.model, found, video_P, anchor_P)

    def _best(self, beams: Beams, uploaded: DeviceBatch, video_P: Tensor, masks: Callable[[], Tensor]) -> Sentences:
        with self.stages("words"):
            features = lambda: EventFeatures(uploaded.features_BTF, uploaded.lengths.steps_B, masks(), video_P)  # noqa: E731
            return rerank(self.word_prior, beams, self.config.inference, features, self.model)

    def _known(self, beams: Beams, uploaded: DeviceBatch, video_P: Tensor, masks: Callable[[], Tensor]) -> BeamEvidence:
        """What is known about the sentences of events."""
        prior, tagger = self.word_prior, self.model.tagger
        with self.stages("words"):
            features_BTF, steps_B, mask_PT = uploaded.features_BTF, uploaded.lengths.steps_B, masks()
            scores_PV = None if prior is None else prior.word_scores(features_BTF, steps_B, mask_PT, video_P)
            change_PV = None if prior is None or scores_PV is None else prior.changes(scores_PV)
            own_PT = mask_PT * (torch.arange(mask_PT.shape[1], device=mask_PT.device) < steps_B[video_P, None])
            labels = tagger(features_BTF, own_PT, video_P) if tagger is not None and any(tagger.classes) else None
            return BeamEvidence.of(beams, change_PV, labels)

    def _split(self, captions: PendingCaptions) -> Iterator[CaptionedVideo]:
        """The captions of a batch, one record a video."""
        if captions.arrived is not None:
            captions.arrived.synchronize()
        with self.stages("text"):
            require_numbers(captions.log_probability_P, self.precision)
            sentences = self.detokenize(captions.words_PL)
            ends = torch.bincount(captions.video_P, minlength=len(captions.clocks)).cumsum(0).tolist()
            anchors = captions.anchor_P.numpy().copy()  # a view would keep the pinned memory
            numbers = (captions.score_P, captions.network_P, captions.reported_P2, captions.log_probability_P)
            score, network, reported, log = (column.numpy().astype(np.float64) for column in numbers)
            mask_PT = captions.mask_PT
            known = self._evidence(captions.beams, sentences, captions.network_P)
        for video, own in enumerate(slice(*pair) for pair in pairwise([0, *ends])):
            yield CaptionedVideo(
                clock=captions.clocks[video],
                anchor_P=anchors[own],
                first_P=np.zeros_like(anchors[own]),
                score_P=score[own],
                proposal_score_P=network[own],
                reported_P2=reported[own],
                log_probability_P=log[own],
                sentences=sentences[own],
                masks=[]
                if mask_PT is None
                else [row_T[: captions.steps[video]].float().numpy().copy() for row_T in mask_PT[own]],
                evidence=known[own],
                confidence=self.sentence_confidence,
            )

    def _evidence(self, beams: BeamEvidence | None, sentences: list[str], score_P: Tensor) -> list[SentenceEvidence]:
        """The evidence of each event, in words; nothing if none was collected."""
        return [] if beams is None else self.evidence_texts(beams, sentences, score_P.double().tolist())

    @torch.inference_mode()
    def _segments(self, inputs: list[ModelInput], segments: list[Segments], *, evidence: bool) -> list[CaptionedSpans]:
        uploaded = self.uploads(inputs)
        with float32_products(exact=self.precision == "float32"):
            video = self.proposal_generator.encode(self.uploads.arrived(uploaded))
            counts = torch.tensor([len(spans) for spans in segments], device=self.device)
            video_P = torch.arange(len(inputs), device=self.device).repeat_interleave(counts)
            in_steps = [
                each.clock.steps(np.asarray(spans, dtype=np.float64).reshape(-1, 2))
                for each, spans in zip(inputs, segments, strict=True)
            ]
            steps_P2 = torch.from_numpy(np.concatenate(in_steps)).float().to(self.device)
            steps = video.embedded_BTD.shape[1]
            mask_PT = self.model.segment_mask(steps_P2, steps, uploaded.lengths.steps_B[video_P].float())
            beams, masks = self.caption_generator(video, mask_PT, video_P), lambda: mask_PT
            sentences = self._best(beams, uploaded, video_P, masks)
            known = self._known(beams, uploaded, video_P, masks) if evidence or self.sentence_confidence else None
        require_numbers(sentences.log_probability_P, self.precision)
        texts = self.detokenize(sentences.words_PL.cpu())
        on_host = None if known is None else known.cpu()
        about = self._evidence(on_host, texts, torch.ones(len(texts)))
        spans = chain.from_iterable(segments)
        events = [Event(start, end, text) for (start, end), text in zip(spans, texts, strict=True)]
        events = with_sentence_scores(events, about, self.sentence_confidence)
        ends = np.cumsum([len(own) for own in segments]).tolist()
        return [CaptionedSpans(events[first:end], about[first:end]) for first, end in pairwise([0, *ends])]


def _downloaded(columns: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], torch.cuda.Event | None]:
    """Tensors on the host, and the CUDA event after which their numbers are there."""
    if not columns["video_P"].is_cuda:
        return {name: column.cpu() for name, column in columns.items()}, None
    arriving = {name: column.to("cpu", non_blocking=True) for name, column in columns.items()}
    arrived = torch.cuda.Event()
    arrived.record()
    return arriving, arrived


def default_precision(device: torch.device) -> Precision:
    """bfloat16 where tensor cores make it fast, float32 elsewhere."""
    return "bfloat16" if device.type == "cuda" else "float32"
