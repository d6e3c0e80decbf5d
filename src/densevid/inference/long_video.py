"""Videos of any length become what is wanted of them: the dense list of a benchmark, or the summary for a person.

A video of at most one window is captioned in one go, its summary chosen between proposing and captioning. Of a longer
one all windows propose, batch after batch, and only figures are kept; then what remains of them after merging (and
choosing) is captioned, each event in the window it was found in. Nothing is ever as large as the video.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby

import numpy as np
import torch
from torch import Tensor

from densevid.events import Event
from densevid.inference.batches import CaptionedVideo, ModelInput, ModelInputs
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration, event_columns, proposal_columns, side_by_side, totals_of
from densevid.inference.nms import WHOLE_VIDEO, Selection
from densevid.inference.summary import SummaryRules, choose
from densevid.inference.windows import Windows, exceeds, merge
from densevid.progress import ProgressCallback, no_progress
from densevid.tracks import FeatureTrack

Track = FeatureTrack | ModelInput
Judge = Callable[[Selection, ModelInputs], Selection]


class LongVideoCaptioner:
    """Tells videos with a captioner: everything it finds, or with `summary` rules the few events for a person.

    Events of a summary stand in order of time. With a calibration the score of every event is its calibrated
    confidence, the same in a summary and in the dense list; without one the dense list is as a benchmark has it.
    """

    def __init__(
        self,
        captioner: Captioner,
        *,
        summary: SummaryRules | None = None,
        calibration: Calibration | None = None,
        on_progress: ProgressCallback = no_progress,
    ) -> None:
        self.captioner, self.summary, self.calibration, self.on_progress = captioner, summary, calibration, on_progress
        self.window = captioner.config.model.window
        self.reads_all = captioner.behavior.reads_all

    def tell(self, tracks: Iterable[Track]) -> Iterator[list[Event]]:
        """The events of every video, in the order of the videos; short ones share batches."""
        return map(self.finish, self.told(tracks))

    def told(self, tracks: Iterable[Track]) -> Iterator[CaptionedVideo]:
        """The same in steps, as it was said; calibrated scores are the confidences before anything was said."""
        for long, group in groupby(tracks, key=self.is_long):
            tell = self._long if long else self._short
            yield from tell(group)

    @property
    def asked(self) -> list[str]:
        """What the confidence asks of the steps of videos."""
        return [] if self.calibration is None else self.calibration.asks

    def is_long(self, track: Track) -> bool:
        """Whether a video is read in more than one window."""
        return self.reads_all and exceeds(track, self.window)

    def finish(self, told: CaptionedVideo) -> list[Event]:
        """Events in seconds; in a summary those that are still sure enough after they were captioned, in time order."""
        if self.calibration is not None:
            columns = event_columns(torch.from_numpy(told.score_P), torch.from_numpy(told.log_probability_P))
            told = replace(told, score_P=self.calibration.event(columns).numpy())
        events = told.events()
        if self.summary is None:
            return events
        if not any(event.score > self.summary.surest for event in events):
            return []
        least = self.summary.least
        return sorted((event for event in events if event.score > least), key=lambda event: event.place)

    def judged(self, selection: Selection, read: ModelInputs) -> Selection:
        """Scores become confidences; what no anchor proposed was only put in to have anything at all: a summary does
        without it, and its confidence is none.
        """
        proposed_BK = selection.anchor_BK != WHOLE_VIDEO
        proposed = replace(selection, kept_BK=selection.kept_BK & proposed_BK)
        score_BK = selection.of_network if self.summary is not None else selection.score_BK
        if self.calibration is not None:
            score_BK = self.calibration.of_proposals(proposal_columns(proposed, read)).where(proposed_BK, 0)
        return replace(selection if self.summary is None else proposed, score_BK=score_BK)

    def _short(self, tracks: Iterable[Track]) -> Iterator[CaptionedVideo]:
        def choose_some(found: Selection, read: ModelInputs) -> Selection:
            chosen = self._chosen(self.judged(found, read), found.score_BK)
            self.on_progress("events", 1.0)
            return chosen

        return in_batches(self.captioner, tracks, choose_some, self.on_progress, asked=self.asked)

    def _chosen(self, judged: Selection, score_BK: Tensor, steps: int = 0) -> Selection:
        """What a summary keeps of each row, if a summary is wanted; `score_BK` ranks them."""
        if self.summary is None:
            return judged
        confidence_BK = torch.where(judged.kept_BK, judged.score_BK, 0)
        kept_BK = choose(judged.reported_BK2, confidence_BK, self.summary.count(steps), self.summary, score_BK)
        return replace(judged, kept_BK=kept_BK)

    def _long(self, tracks: Iterable[Track]) -> Iterator[CaptionedVideo]:
        return (self._in_windows(track) for track in tracks if isinstance(track, FeatureTrack))

    def _in_windows(self, track: FeatureTrack) -> CaptionedVideo:
        windows = Windows.over(track, self.window)
        found, score_WK = self._proposed(track, windows)
        alike = self.captioner.config.inference.suppression_iou
        kept_WK = merge(windows, found.reported_BK2, found.score_BK, found.kept_BK, alike)
        flat = replace(found, kept_BK=kept_WK).mapped(lambda values: values.flatten(0, 1)[None])
        kept = self._chosen(flat, score_WK.flatten()[None], len(track))
        chosen = kept.mapped(lambda values: values[0].unflatten(0, kept_WK.shape))
        return self._spoken(track, windows, chosen)

    def _proposed(self, track: FeatureTrack, windows: Windows) -> tuple[Selection, Tensor]:
        """What all windows propose, W x K, in steps of the video, and the scores that rank them; nothing is said yet.

        A window that has to be an event itself, as nothing else is proposed, counts where that is so in all of them.
        """
        found: list[Selection] = []
        scored: list[Selection] = []

        def keep(selection: Selection, read: ModelInputs) -> Selection:
            found.append(self.judged(selection, read))
            scored.append(selection)
            self.on_progress("events", sum(len(part.kept_BK) for part in found) / len(windows))
            return replace(selection, kept_BK=torch.zeros_like(selection.kept_BK))

        parts = (windows.part(track, number) for number in range(len(windows)))
        deque(in_batches(self.captioner, parts, keep, asked=self.asked), maxlen=0)
        together = _stacked(found)
        start_W11 = windows.starts_W(together.reported_BK2)[:, None, None]
        kept_WK = together.kept_BK & (together.anchor_BK != WHOLE_VIDEO)
        if not bool(kept_WK.any()):
            kept_WK = together.kept_BK
        placed = replace(together, reported_BK2=together.reported_BK2 + start_W11, kept_BK=kept_WK)
        return placed, _stacked(scored).score_BK

    def _spoken(self, track: FeatureTrack, windows: Windows, chosen: Selection) -> CaptionedVideo:
        """Caption what was chosen, in the windows that hold any of it; the best first."""
        telling = chosen.kept_BK.any(dim=1).nonzero()[:, 0].tolist()
        rows = deque(telling)

        def take(selection: Selection, read: ModelInputs) -> Selection:
            self.on_progress("sentences", 1 - len(rows) / len(telling))
            own = [rows.popleft() for _ in read.steps_B]
            return chosen.mapped(lambda values: values[own])

        parts = (windows.part(track, number) for number in telling)
        told = list(in_batches(self.captioner, parts, take))
        placed = [
            replace(part, first_P=part.first_P + windows.starts[n]) for part, n in zip(told, telling, strict=True)
        ]
        return _best_first(placed, track)


def in_batches(
    captioner: Captioner,
    tracks: Iterable[Track],
    judge: Judge,
    on_progress: ProgressCallback = no_progress,
    *,
    asked: Sequence[str] = (),
) -> Iterator[CaptionedVideo]:
    """Caption what `judge` leaves of every batch; it is told what was read of each video of the batch, and `asked`."""
    steps: deque[int] = deque()
    totals = totals_of(asked, captioner.actionness)
    kept: dict[str, deque[np.ndarray]] = {name: deque() for name in asked}

    def counted() -> Iterator[ModelInput]:
        for read in map(captioner.read, tracks):
            steps.append(len(read.values_TF))
            for name, total in totals.items():
                kept[name].append(total(read.values_TF))
            yield read

    def choose_some(selection: Selection) -> Selection:
        device, videos = selection.kept_BK.device, range(len(selection.kept_BK))
        own = torch.tensor([steps.popleft() for _ in videos], device=device)
        joined = {name: side_by_side([rows.popleft() for _ in videos], device) for name, rows in kept.items()}
        return judge(selection, ModelInputs(own, joined))

    return captioner.captioned(counted(), choose=choose_some, on_progress=on_progress)


def _stacked(parts: list[Selection]) -> Selection:
    """Batches one below the other, as wide as the widest; places that are filled up are not kept."""
    widest = max(part.kept_BK.shape[1] for part in parts)
    columns = zip(*(part.widened(widest).columns for part in parts), strict=True)
    return Selection(*map(torch.cat, columns))


def _best_first(told: list[CaptionedVideo], track: FeatureTrack) -> CaptionedVideo:
    """The events of all windows as those of one video."""

    def joined(name: str, empty: tuple[int, ...]) -> np.ndarray:
        return np.concatenate([np.empty(empty), *(getattr(part, name) for part in told)])

    score_P = joined("score_P", (0,))
    order_P = np.argsort(-score_P, kind="stable")
    sentences = list(chain.from_iterable(part.sentences for part in told))
    return CaptionedVideo(
        anchor_P=joined("anchor_P", (0,))[order_P].astype(np.int64),
        first_P=joined("first_P", (0,))[order_P].astype(np.int64),
        score_P=score_P[order_P],
        reported_P2=joined("reported_P2", (0, 2))[order_P],
        sentences=[sentences[place] for place in order_P],
        log_probability_P=joined("log_probability_P", (0,))[order_P],
        clock=track.clock,
    )
