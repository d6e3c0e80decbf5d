"""The record of an evaluation: what was to be computed, the scores of each protocol, and what they cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from densevid.errors import InputError
from densevid.evaluation.coverage import Coverage, LengthRange
from densevid.evaluation.files import Floats, Source
from densevid.evaluation.protocols import captioning, soda
from densevid.evaluation.protocols.captioning import CaptioningScores
from densevid.evaluation.protocols.paragraph import ParagraphScores
from densevid.evaluation.protocols.proposals import ProposalResults
from densevid.evaluation.protocols.segments import SegmentScores
from densevid.evaluation.protocols.soda import SodaScores
from densevid.evaluation.protocols.support import SupportScores
from densevid.evaluation.report import as_html, percent, score_tables

PARTS = ("captioning", "soda", "paragraph", "proposals", "segments", "support")


@dataclass(frozen=True)
class Settings:
    """What to compute.

    Attributes:
        protocol: The captioning protocol: "2017" (the paper's), "2018" (what most papers report) or "2021".
        metrics: Names of `PARTS`; None computes all that the files allow.
        paragraphs: Files of reference paragraphs, `{video: text}`; by default the references' sentences, joined.
        soda_metric: The text score inside SODA, "METEOR" or "CIDEr".
        min_seconds: Score only events of at least this length.
        max_seconds: Score only events of at most this length.
        cache: Keep METEOR's results on disk between runs.
        confidence: The field of a predicted event that ranks its sentence in the part "support".
    """

    protocol: str = "2018"
    metrics: tuple[str, ...] | None = None
    paragraphs: tuple[Source, ...] = ()
    soda_metric: str = "METEOR"
    min_seconds: float | None = None
    max_seconds: float | None = None
    cache: bool = True
    confidence: str = "sentence_score"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("protocol", self.protocol, captioning.PROTOCOLS),
            ("soda metric", self.soda_metric, soda.TEXT_METRICS),
            *(("metric", metric, PARTS) for metric in self.metrics or ()),
        ):
            if value not in known:
                raise InputError(f"unknown {name} {value!r}; choose from {', '.join(known)}")
        if self.paragraphs and not self.lengths.unlimited:
            raise InputError("paragraph files describe whole videos; leave out --paragraphs, or --min/--max-seconds")

    @property
    def lengths(self) -> LengthRange:
        """The lengths of the events to keep."""
        return LengthRange(self.min_seconds, self.max_seconds)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The scores of an event file. In a notebook it shows as tables.

    Attributes:
        settings: What was to be computed.
        parts: The names of the parts that were computed; the attribute of any other part is None.
        coverage: The videos and events that the scores cover, what was left out, and warnings.
        captioning: METEOR, BLEU, ROUGE-L, CIDEr, recall and precision of detected events at four tIoUs.
        soda: SODA a, b, c and d, with pooled, best and single references.
        paragraph: METEOR, BLEU, ROUGE-L and CIDEr of whole videos as paragraphs.
        proposals: Average recall of proposals, against the first reference file and against all.
        segments: METEOR, BLEU, ROUGE-L and CIDEr of captions of given segments.
        support: Whether sentences use the words of several annotators; only if it is named in `metrics`.
    """

    settings: Settings
    parts: tuple[str, ...]
    coverage: Coverage
    captioning: CaptioningScores | None = None
    soda: SodaScores | None = None
    paragraph: ParagraphScores | None = None
    proposals: ProposalResults | None = None
    segments: SegmentScores | None = None
    support: SupportScores | None = None

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain fractions at full precision, as `densevid evaluate --json` writes them.

        Undefined scores are None; parts that were not computed are absent.
        """
        content: dict[str, Any] = {"protocol": self.settings.protocol}
        for part in self.parts:
            content[part] = getattr(self, part).to_dict()
            if part == "soda":
                content["soda_metric"] = self.settings.soda_metric
        content["coverage"] = asdict(self.coverage)
        return content

    def per_video(self) -> tuple[list[str], list[list[Any]]]:
        """A header and one row a video: captioning averaged over tIoU, SODA's F1 and the other parts' scores."""
        columns: dict[str, Mapping[str, float]] = {}
        for part in self.parts:
            scores = self.proposals.pooled if part == "proposals" and self.proposals else getattr(self, part)
            for name, values_V in scores.per_video().items():
                columns[name] = _by_video(scores.videos, values_V)
        videos = sorted({video for column in columns.values() for video in column})
        rows = [[video, *(column.get(video, "") for column in columns.values())] for video in videos]
        return ["video", *columns], rows

    def headlines(self) -> dict[str, float | None]:
        """The one number of each part that papers quote first, as a fraction."""
        scores: dict[str, float | None] = {}
        if self.captioning:
            scores["METEOR"] = self.captioning.average()["METEOR"]
        if self.soda:
            scores["SODA_c"] = self.soda.tables["c"]["merged"].means()["f1"]
        if self.paragraph:
            scores["paragraph METEOR"] = self.paragraph.to_dict()["METEOR"]
        if self.proposals:
            scores["AR@100"] = self.proposals.first.average_recall_at(100)
        if self.segments:
            scores["segments METEOR"] = self.segments.micro()["METEOR"]
        if self.support:
            scores["support"] = self.support.groups["shown"].support
        return scores

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {percent(value)}" for name, value in self.headlines().items())
        return f"Evaluation({scores}; protocol {self.settings.protocol}, {self.coverage.reference_videos} videos)"

    def _repr_html_(self) -> str:
        return "\n".join(as_html(table) for table in score_tables(self.to_dict()))


def _by_video(videos: list[str], values_V: Floats) -> dict[str, float]:
    return dict(zip(videos, values_V.tolist(), strict=True))
