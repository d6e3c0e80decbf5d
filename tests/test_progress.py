"""The bar is silent while it is quick, and speaks even if nothing is done yet."""

from __future__ import annotations

import time

import pytest

from densevid import progress


def test_quick_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    bar = progress.CountedProgress("METEOR")
    bar.expect(3)
    bar.advance(2)
    bar.close()
    assert capsys.readouterr().err == ""


def test_slow_work_is_shown_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.02)
    bar = progress.CountedProgress("METEOR")
    bar.expect(3_000)
    time.sleep(0.3)
    bar.advance(1_000)
    bar.close()
    assert capsys.readouterr().err == "METEOR: 0 of 3,000 asked so far\n"


def test_it_speaks_again_with_the_new_total_and_falls_silent_when_closed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LINE_EVERY_SECONDS", 0.02)
    bar = progress.CountedProgress("METEOR")
    bar.expect(10)
    bar.expect(20)
    time.sleep(0.5)
    bar.close()
    said = capsys.readouterr().err.splitlines()
    assert len(said) > 1
    assert set(said) == {"METEOR: 0 of 30 asked so far"}
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
