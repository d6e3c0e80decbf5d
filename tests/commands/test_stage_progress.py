"""Progress of captioning: a bar that begins anew with every video, or none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from densevid.commands import stage_progress as stages
from densevid.commands.stage_progress import NoStages, StageBar, StageLines


def test_the_bar_is_empty_when_the_next_video_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, str]] = []
    drawn = SimpleNamespace(update=lambda done, text: shown.append((round(done, 2), text.split("  ")[-1])))
    monkeypatch.setattr(stages, "Progress", lambda *total, **options: drawn)
    watch = StageBar(2)
    watch("files", 0.0)
    for stage in ("decode", "features", "events", "sentences"):
        watch(stage, 1.0)
    watch("files", 0.5)
    watch("files", 1.0)
    assert shown[0] == (0.0, "decoding, video 1 of 2") and shown[-2] == (1.0, "writing, video 1 of 2")
    assert shown[-1] == (0.0, "decoding, video 2 of 2")


@pytest.mark.parametrize("kind", [NoStages, StageLines])
def test_without_a_bar_none_is_made(kind: type[NoStages], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "Progress", None)
    with kind(2) as watch:
        watch.line("a result")
