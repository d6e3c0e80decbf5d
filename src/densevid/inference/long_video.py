"""LongVideoCaptioner: videos of any length become a dense list of events or a summary, each in two phases.

    propose -> confidence -> (merge of windows) -> summary -> masks and sentences -> confidence with the sentence

A video of at most one window takes one batch through both phases. Of a longer one all windows are proposed in first,
batch after batch; what remains after merging and choosing is captioned in the window it was proposed in. The encoded
windows are kept between the phases up to `KEPT_BYTES`; beyond that a window is encoded again, so that memory does not
grow with the video.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, groupby

import numpy as np
import torch

from densevid.events import Event
from densevid.inference.batches import CaptionedVideo, ModelInput, ModelInputs, PendingCaptions
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import (
    Calibration,
    RunningTotal,
    event_features,
    pad_totals,
    proposal_features,
    running_totals,
)
from densevid.inference.nms import WHOLE_VIDEO, Selection
from densevid.inference.proposals import ProposedBatch
from densevid.inference.summary import SummaryRules, choose
from densevid.inference.windows import Windows, merge
from densevid.progress import ProgressCallback, no_progress
from densevid.tracks import FeatureTrack

Track = FeatureTrack | ModelInput
KEPT_BYTES = 64 << 20  # of encoded windows of one video: about half an hour of video with the bundled model


@dataclass(frozen=True)
class WindowBatch:
    """Windows of one video that share a batch, as `propose` left them; `numbers` are theirs in `Windows`.

    `batch` is None where it was too large to keep.
    """

    numbers: list[int]
    batch: ProposedBatch | None


class LongVideoCaptioner:
    """Captions videos of any length: every event that is proposed, or with `summary` the few events of a summary.

    The events of a summary are in order of time. With a calibration the score of every event is its calibrated
    confidence, the same in a summary and in the dense list; without one it is the score of a benchmark.

    Args:
        captioner: Captions one window.
        summary: The rules of the summary; None for the dense list.
        calibration: Turns scores into confidences.
        masks: Whether to return the event mask of each event.
        evidence: Whether to collect what is known about each sentence even if the model has no confidence in them.
        keep: Whether to keep what the network computed of the last video's windows in `kept`, for `explain`.
        on_progress: Called with ("events", share) and ("sentences", share).
    """

    def __init__(
        self,
        captioner: Captioner,
        *,
        summary: SummaryRules | None = None,
        calibration: Calibration | None = None,
        masks: bool = False,
        evidence: bool = False,
        keep: bool = False,
        on_progress: ProgressCallback = no_progress,
    ) -> None:
        self.captioner, self.summary, self.calibration = captioner, summary, calibration
        self.masks, self.evidence, self.keep, self.on_progress = masks, evidence, keep, on_progress
        self.window = captioner.config.model.window
        self.totals: dict[str, RunningTotal] = (
            running_totals(calibration.step_features, captioner.actionness) if calibration else {}
        )
        self.kept: dict[int, ProposedBatch] = {}

    @classmethod
    def build(
        cls,
        captioner: Captioner,
        *,
        dense: bool = False,
        top: int | None = None,
        calibrated: bool = True,
        masks: bool = False,
        keep: bool = False,
        on_progress: ProgressCallback = no_progress,
    ) -> LongVideoCaptioner:
        """The one builder that `predict`, `caption` and `serve` share: rules and calibration from the model's settings.

        Args:
            captioner: The model on its device.
            dense: Every event that is proposed, overlapping ones too, instead of the summary.
            top: A summary of at most so many events, whatever their confidence.
            calibrated: Whether scores are confidences, if the model has a calibration.
            masks: As in the constructor.
            keep: As in the constructor.
            on_progress: As in the constructor.
        """
        config = captioner.config
        rules = None if dense else SummaryRules.of(config.inference, config.model.window, top)
        calibration = captioner.calibration if calibrated else None
        return cls(captioner, summary=rules, calibration=calibration, masks=masks, keep=keep, on_progress=on_progress)

    def caption_many(self, tracks: Iterable[Track]) -> Iterator[list[Event]]:
        """The events of every video, in the order of the videos; short ones share batches."""
        return (self.finished(video).events() for video in self.captioned(tracks))

    def captioned(self, tracks: Iterable[Track]) -> Iterator[CaptionedVideo]:
        """All captioned events in steps, with the confidences from before their sentences."""
        for long, group in groupby(tracks, key=self.captioner.is_long):
            captioned = map(self._long, group) if long else self._short(group)  # noqa: B031
            yield from captioned

    def finished(self, video: CaptionedVideo) -> CaptionedVideo:
        """Scores that count the sentences; in a summary the events that are confident enough with them, by time."""
        if self.calibration is not None:
            columns = event_features(torch.from_numpy(video.score_P), torch.from_numpy(video.log_probability_P))
            video = replace(video, score_P=self.calibration.event(columns).numpy())
        if self.summary is None:
            return video
        places = np.flatnonzero(video.score_P > self.summary.least)
        return video.take(places).by_time()

    def scored(self, selection: Selection, read: ModelInputs) -> Selection:
        """The selection with confidences for scores, and the network's scores beside them.

        A summary leaves out what no anchor proposed, which is there only so that a dense list is never empty; its
        confidence is 0.
        """
        proposed_BK = selection.anchor_BK != WHOLE_VIDEO
        proposed = replace(selection, kept_BK=selection.kept_BK & proposed_BK)
        network_BK = selection.of_network
        score_BK = network_BK if self.summary is not None else selection.score_BK
        if self.calibration is not None:
            score_BK = self.calibration.of_proposals(proposal_features(proposed, read)).where(proposed_BK, 0)
        return replace(selection if self.summary is None else proposed, score_BK=score_BK, network_BK=network_BK)

    def _scored(self, inputs: list[ModelInput], batch: ProposedBatch) -> Selection:
        return self.scored(batch.selection, model_inputs(inputs, self.totals, self.captioner.device))

    def _short(self, tracks: Iterable[Track]) -> Iterator[CaptionedVideo]:
        """Videos of one window, several a batch."""
        return self.captioner.collect(self._generated(tracks))

    def _generated(self, tracks: Iterable[Track]) -> Iterator[PendingCaptions]:
        batches = self.captioner.batches()
        for inputs in batches(map(self.captioner.read, tracks)):
            batch = self.captioner.propose(inputs)
            if self.keep:
                self.kept = {0: batch.rows([0])}
            scored = self._scored(inputs, batch)
            selection = self._chosen(scored, batch.selection)
            self.on_progress("events", 1.0)
            chosen = replace(batch, selection=selection)
            captions = self.captioner.generate(
                chosen, masks=self.masks, evidence=self.evidence, on_progress=self.on_progress
            )
            batches.learn(len(inputs), captions.events)
            yield captions

    def _chosen(self, scored: Selection, ranked: Selection, steps: int = 0) -> Selection:
        """What a summary keeps of each row, all of it without a summary; the scores of `ranked` rank them."""
        if self.summary is None:
            return scored
        confidence_BK = torch.where(scored.kept_BK, scored.score_BK, 0)
        count = self.summary.count(steps)
        kept_BK = choose(scored.reported_BK2, confidence_BK, count, self.summary, ranked.score_BK)
        return replace(scored, kept_BK=kept_BK)

    def _long(self, track: Track) -> CaptionedVideo:
        """A video of several windows: propose in all, merge, choose, then caption what was chosen."""
        assert isinstance(track, FeatureTrack)
        windows = Windows.over(track, self.window)
        proposed, scored, ranked = self._proposed(track, windows)
        alike = self.captioner.config.inference.suppression_iou
        kept_WK = merge(windows, scored.reported_BK2, scored.score_BK, scored.kept_BK, alike)
        flat, flat_ranked = (
            each.mapped(lambda values: values.flatten(0, 1)[None])
            for each in (replace(scored, kept_BK=kept_WK), ranked)
        )
        chosen = self._chosen(flat, flat_ranked, len(track)).mapped(
            lambda values: values[0].unflatten(0, kept_WK.shape)
        )
        captions = self.captioner.collect(self._captions(track, windows, proposed, chosen))
        numbers = [number for each in proposed for number in each.numbers if bool(chosen.kept_BK[number].any())]
        placed = [
            replace(part, first_P=part.first_P + windows.starts[n]) for n, part in zip(numbers, captions, strict=True)
        ]
        if self.keep:
            rows = ((each.batch, row, n) for each in proposed for row, n in enumerate(each.numbers))
            self.kept = {windows.starts[n]: batch.rows([row]) for batch, row, n in rows if batch is not None}
        return _best_first(placed, track)

    def _proposed(self, track: FeatureTrack, windows: Windows) -> tuple[list[WindowBatch], Selection, Selection]:
        """What all windows propose, W x K, in steps of the video: with confidences, and with the scores that rank it.

        A window that is an event itself, as nothing else is proposed in it, counts where that is so in all of them.
        """
        proposed: list[WindowBatch] = []
        scored: list[Selection] = []
        ranked: list[Selection] = []
        left, done = KEPT_BYTES, 0
        parts = (windows.part(track, number) for number in range(len(windows)))
        for inputs, batch in self.captioner.proposed(parts):
            scored.append(self._scored(inputs, batch))
            ranked.append(batch.selection)
            numbers = list(range(done, done + len(inputs)))
            kept = batch.rows(range(len(inputs)), layers=not self.captioner.model.encodes_again)
            left -= kept.kept_bytes
            proposed.append(WindowBatch(numbers, kept if left >= 0 else None))
            done += len(inputs)
            self.on_progress("events", done / len(windows))
        together = _stacked(scored)
        start_W11 = windows.starts_W(together.reported_BK2)[:, None, None]
        kept_WK = together.kept_BK & (together.anchor_BK != WHOLE_VIDEO)
        if not bool(kept_WK.any()):
            kept_WK = together.kept_BK
        placed = replace(together, reported_BK2=together.reported_BK2 + start_W11, kept_BK=kept_WK)
        return proposed, placed, _stacked(ranked)

    def _captions(
        self, track: FeatureTrack, windows: Windows, proposed: list[WindowBatch], chosen: Selection
    ) -> Iterator[PendingCaptions]:
        """Caption what was chosen, batch after batch, in the windows that hold any of it."""
        total = max(1, int(chosen.kept_BK.any(dim=1).sum()))
        done = 0
        for each in proposed:
            rows = [row for row, number in enumerate(each.numbers) if bool(chosen.kept_BK[number].any())]
            if not rows:
                continue
            numbers = [each.numbers[row] for row in rows]
            self.on_progress("sentences", done / total)
            parts = [self.captioner.read(windows.part(track, number)) for number in numbers]
            if each.batch is None:
                batch = self.captioner.propose(parts)
            else:
                batch = self.captioner.with_features(each.batch.rows(rows), parts)
            own = replace(batch, selection=_taken(chosen, numbers))
            yield self.captioner.generate(own, masks=self.masks, evidence=self.evidence)
            done += len(rows)


def model_inputs(inputs: list[ModelInput], totals: Mapping[str, RunningTotal], device: torch.device) -> ModelInputs:
    """What a calibration reads of the steps of a batch, from `running_totals` its features."""
    steps_B = torch.tensor([len(each.values_TF) for each in inputs], device=device)
    rows = {name: [total(each.values_TF) for each in inputs] for name, total in totals.items()}
    return ModelInputs(steps_B, {name: pad_totals(of_videos, device) for name, of_videos in rows.items()})


def _taken(selection: Selection, rows: list[int]) -> Selection:
    """Some of its rows."""
    return selection.mapped(lambda values: values[rows])


def _stacked(parts: list[Selection]) -> Selection:
    """Batches one below the other, as wide as the widest; places that are filled up are not kept."""
    widest = max(part.kept_BK.shape[1] for part in parts)
    columns = zip(*(part.widened(widest).columns for part in parts), strict=True)
    return Selection(*map(torch.cat, columns))


def _best_first(parts: list[CaptionedVideo], track: FeatureTrack) -> CaptionedVideo:
    """The events of all windows as those of one video, the best first."""

    def joined(name: str, empty: tuple[int, ...] = (0,), kind: type = np.float64) -> np.ndarray:
        return np.concatenate([np.empty(empty, kind), *(getattr(part, name) for part in parts)])

    video = CaptionedVideo(
        clock=track.clock,
        anchor_P=joined("anchor_P", kind=np.int64),
        first_P=joined("first_P", kind=np.int64),
        score_P=joined("score_P"),
        proposal_score_P=joined("proposal_score_P"),
        reported_P2=joined("reported_P2", (0, 2)),
        log_probability_P=joined("log_probability_P"),
        sentences=list(chain.from_iterable(part.sentences for part in parts)),
        masks=list(chain.from_iterable(part.masks for part in parts)),
        evidence=list(chain.from_iterable(part.evidence for part in parts)),
        confidence=parts[0].confidence if parts else None,
    )
    return video.take(np.argsort(-video.score_P, kind="stable"))
