"""What a batch costs the host: operations (on a GPU launches) and questions to the device, counted where they are made.

Counted on a CPU, in the form that a GPU uses: events one below the other, a selection without a look. Views are free.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from densevid.errors import InputError
from densevid.inference import nms as selection
from densevid.inference.batches import DeviceBatch
from densevid.inference.captioner import Captioner
from densevid.inference.generator import GeneratorLimits
from densevid.inference.nms import best
from densevid.kernels.cuda_graphs import FlatSentences, Graphs
from helpers.random_models import random_model, random_track

LOOKS = ("_local_scalar_dense", "nonzero", "equal", "unique", "_unique2", "is_nonzero", "unique_dim")


class Operations(TorchDispatchMode):
    """Counts what is called inside, but for views and empty tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.called: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if not func.is_view and "empty" not in name and name not in ("detach", "_unsafe_view", "lift_fresh"):
            self.called[name] += 1
        return func(*args, **(kwargs or {}))

    @property
    def looks(self) -> int:
        return sum(self.called[name] for name in LOOKS)


@pytest.fixture
def captioner(monkeypatch: pytest.MonkeyPatch) -> Captioner:
    """As on a GPU; suppression, there one kernel, is one round here."""
    captioner = Captioner(random_model(), limits=GeneratorLimits(1 << 17, 1 << 14), steps_at_once=10_000)
    speaker = captioner.speaker
    assert speaker.decoder is not None
    speaker.flat = FlatSentences(speaker.decoder, speaker.rules, Graphs(enabled=False), 1 << 14)
    captioner.finder.looks = False
    monkeypatch.setattr(selection, "suppress", lambda overlapping: ~overlapping.tril(-1).any(dim=-1))
    monkeypatch.setattr(speaker.decoder.fused, "attended_flat", lambda query, memory, index: query * 1)
    return captioner


def uploaded(captioner: Captioner, videos: int) -> DeviceBatch:
    return captioner.uploads([captioner.read(random_track(40, seed)) for seed in range(videos)])


@torch.inference_mode()
def test_finding_asks_the_device_nothing(captioner: Captioner) -> None:
    batch = uploaded(captioner, 3)
    with Operations() as operations:
        captioner.finder._work(batch)
    assert operations.looks == 0 and operations.called


@torch.inference_mode()
def test_words_ask_the_device_nothing_and_are_few_operations(captioner: Captioner) -> None:
    flat, decoder = captioner.speaker.flat, captioner.speaker.decoder
    assert flat is not None and decoder is not None
    memory = flat.memory(12, 12 * 40)
    memory.tell([(12, 40)])
    with Operations() as operations:
        flat(memory, 12)
    assert operations.looks == 0
    a_word = sum(operations.called.values()) / decoder.max_words
    assert a_word <= 80, operations.called.most_common(12)


@pytest.mark.parametrize("top", [None, 3])
def test_a_batch_is_the_same_work_for_the_host_however_many_videos_it_has(
    captioner: Captioner, top: int | None
) -> None:
    def counted(videos: int) -> Operations:
        reads = [captioner.read(random_track(40, seed)) for seed in range(videos)]
        with Operations() as operations:
            captioner._spoken(reads, None if top is None else lambda found: best(found, top))
        return operations

    few, many = counted(2), counted(9)
    assert few.looks == many.looks <= 2  # whether the selection is through, and which of its places are in use
    per_video = 2  # its rows are copied, and zeros put behind them
    ours, theirs = (sum(operations.called.values()) for operations in (few, many))
    assert theirs - ours <= 7 * per_video, many.called - few.called
    assert ours <= 900 + 60 * captioner.config.inference.max_words, few.called.most_common(12)


def test_the_host_reads_ahead_and_keeps_the_order(captioner: Captioner) -> None:
    tracks = [random_track(steps, steps) for steps in (40, 13, 29, 40, 2)]
    captioner.steps_at_once = 40
    want = [video.sentences for video in captioner.captioned(tracks)]
    captioner.ahead = True
    assert [video.sentences for video in captioner.captioned(tracks)] == want


def test_what_came_before_a_broken_video_is_not_lost(captioner: Captioner) -> None:
    captioner.steps_at_once, captioner.ahead = 1, True
    broken = random_track(5)
    broken.values[2, 1] = float("nan")
    told = captioner.captioned([random_track(40), random_track(13), broken])
    assert len(next(told).sentences) and len(next(told).sentences)
    with pytest.raises(InputError, match="NaN"):
        next(told)
