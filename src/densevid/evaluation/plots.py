"""The paper's figure: recall of proposals over how many are allowed (dashed: at tIoU 0.8), and over tIoU."""

from __future__ import annotations

from pathlib import Path

from densevid.errors import InputError
from densevid.evaluation.protocols.localization import TIOUS, Proposals
from densevid.io import atomic_path

KINDS = ("png", "pdf", "svg")
PAPERS_TIOU = 6  # the figure of the paper is at tIoU 0.8


def picture_kind(path: Path | str) -> str:
    """What the ending of the path asks for."""
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in KINDS:
        raise InputError(f"{path}: a picture must end in .png, .pdf or .svg")
    return kind


def plot_proposals(path: Path | str, sides: dict[str, Proposals]) -> None:
    """Write the two curves of each side as a picture; the ending of the path chooses the kind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (over_number, over_tiou) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for side, scores in sides.items():
        label = f"{side} ({100 * scores.area():.2f})"
        (line,) = over_number.plot(scores.average_number_J, 100 * scores.average_recall_J, label=label)
        at_high_tiou = 100 * scores.recall_TJ[PAPERS_TIOU]
        over_number.plot(scores.average_number_J, at_high_tiou, "--", color=line.get_color(), label=f"{side}, tIoU 0.8")
        over_tiou.plot(TIOUS, 100 * scores.recall_TJ[:, -1], marker="o", label=side)
    over_number.set(xlabel="proposals per video, on average", ylabel="recall (%)", xlim=(0, None), ylim=(0, 100))
    over_tiou.set(xlabel="tIoU", ylabel="recall at 100 (%)", ylim=(0, 100))
    over_number.legend(title="mean over tIoU (area)")
    over_tiou.legend()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=picture_kind(path), dpi=150)
    pyplot.close(figure)
