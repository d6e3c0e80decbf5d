"""On a GPU: float32 gives the events of a CPU; kernels, graphs, batches and bfloat16 stay near it.

python tests/kernels/test_on_gpu.py              # also without pytest: a line each, exit code 1 if any fails
python tests/kernels/test_on_gpu.py company words # those checks alone that have one of these in their names
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

if __name__ == "__main__":
    tests = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(tests), str(tests.parent / "src")]

from benchmarks.inference_parts import part_lines
from benchmarks.inference_runs import agreement
from benchmarks.inference_workload import Workload, random_tracks
from benchmarks.inference_workload import random_model as paper_model
from benchmarks.plain_captioner import PlainCaptioner
from densevid.inference.batches import CaptionedVideo
from densevid.inference.captioner import Captioner
from densevid.inference.confidence import Calibration
from densevid.inference.fitting.calibration import IDENTITY
from densevid.inference.fitting.logistic import LogisticCurve
from densevid.inference.long_video import LongVideoCaptioner
from densevid.inference.nms import best
from densevid.inference.search import NEVER_GENERATED, most_likely
from densevid.inference.summary import SummaryRules
from densevid.intervals import suppress
from densevid.kernels.caption_generator import PackedCaptionGenerator, PackedLimits
from densevid.kernels.fused import KERNELS, AttentionTiling, Fused, TritonFused, has_triton, tiling_for
from densevid.kernels.proposal_generator import GraphedProposalGenerator, triton_suppress
from densevid.kernels.word_state import KeyValueCache, RaggedMemory
from densevid.tracks import FeatureTrack
from helpers.random_models import WIDTH, random_actionness, random_model, random_track

Variant = tuple[dict[str, Any], dict[str, Any]]
TRACKS = [random_track(steps, steps) for steps in (40, 13, 29, 40, 2, 31)]
VARIANTS: list[Variant] = [
    ({"width": 64}, {}),
    ({"width": 64, "mask": "discrete"}, {}),
    ({"width": 64, "mask": "learned"}, {"mask_floor": 0.3}),
    ({"width": 64, "compat": "released"}, {"min_before_suppression": 20}),
    ({"width": 48}, {}),
    ({"encoder": "bi-lstm", "decoder": "lstm"}, {}),
    ({"encoder": "bi-lstm", "width": 64}, {}),
    ({"width": 64}, {"beam": 3}),
    ({"width": 64, "mask": "discrete"}, {"beam": 4, "no_repeat": 2, "mbr_weight": 0.8}),
    ({"encoder": "bi-lstm", "decoder": "lstm"}, {"beam": 3}),
    ({"width": 64}, {"beam": 5, "mbr_weight": 0.8, "word_prior_weight": 3.0}),
]
KINDS: list[dict[str, Any]] = [
    {"kernels": (), "cuda_graphs": False},
    {"kernels": KERNELS, "cuda_graphs": False},
    {"kernels": KERNELS, "cuda_graphs": True},
    {"kernels": KERNELS, "cuda_graphs": True, "attention": "cudnn"},
    {"kernels": ("attend",), "cuda_graphs": True},
]


def captioner(variant: Variant, precision: Any = "float32", **limits: Any) -> Captioner:
    device = torch.device("cuda")
    chosen = replace(PackedLimits.of(device), decoded_steps=1 << 14, **limits)
    return Captioner(random_model(*variant), device=device, precision=precision, limits=chosen)


def fast_captions(made: Captioner) -> PackedCaptionGenerator:
    assert isinstance(made.caption_generator, PackedCaptionGenerator)
    return made.caption_generator


def fast_proposals(made: Captioner) -> GraphedProposalGenerator:
    assert isinstance(made.proposal_generator, GraphedProposalGenerator)
    return made.proposal_generator


def near(ours: CaptionedVideo, theirs: CaptionedVideo, what: str, digits: float = 1e-3) -> None:
    """Intervals first: if they differ, so do sentences. The message names event and video."""
    assert len(ours.sentences) == len(theirs.sentences), (what, len(ours.sentences), len(theirs.sentences))
    np.testing.assert_allclose(ours.reported_P2, theirs.reported_P2, atol=1e-3, err_msg=what)
    np.testing.assert_array_equal(ours.anchor_P, theirs.anchor_P, err_msg=what)
    rows = zip(ours.sentences, theirs.sentences, theirs.reported_P2.tolist(), strict=True)
    other = [(number, *row) for number, row in enumerate(rows) if row[0] != row[1]]
    assert not other, f"{what}: {len(other)} of {len(ours.sentences)} sentences differ, the first {other[0]}"
    np.testing.assert_allclose(ours.log_probability_P, theirs.log_probability_P, atol=digits, err_msg=what)


@torch.inference_mode()
def nearest_to_a_whole_step(made: Captioner, track: FeatureTrack) -> float:
    """How near a selected border comes to where it would be rounded to another step; -1 is no anchor's."""
    found, selection = made.proposal_generator(made.uploads([made.read(track)]))
    anchors = selection.anchor_BK[selection.kept_BK]
    borders = found.proposals.intervals_BA2[0, anchors[anchors >= 0]]
    return float((borders - borders.round()).abs().min()) if len(borders) else 1.0


def check_float32_is_that_of_a_cpu(variant: Variant) -> None:
    """On videos of which no border hangs on the last digit: another order of adding would move it by a step."""
    cpu = Captioner(random_model(*variant))
    margins = [nearest_to_a_whole_step(cpu, track) for track in TRACKS]
    tracks = [track for track, margin in zip(TRACKS, margins, strict=True) if margin > 1e-4]
    if len(tracks) < len(TRACKS):
        print(f"  left out, as a border is {min(margins):.0e} from a whole step: video {np.argmin(margins)}")
    assert len(tracks) >= len(TRACKS) - 1, f"too few videos are left to compare: {margins}"
    want = list(cpu.captioned(tracks))
    for kernels in ((), KERNELS):
        for number, ours in enumerate(captioner(variant, kernels=kernels).captioned(tracks)):
            near(ours, want[number], f"kernels {kernels}, video {number}")


def check_borders_and_contrast_by_word_prior(compare: str) -> None:
    """Where events are, in float32, and replayed in bfloat16; borders lie on whole steps, so words are not compared."""
    settings = {"word_prior_weight": 3.0, "border_reach": 0.25, "contrast_weight": 0.75, "similarity_space": compare}
    variant: Variant = ({"width": 64}, {"beam": 2, **settings})
    want = list(Captioner(random_model(*variant)).captioned(TRACKS))
    other: Variant = (variant[0], {**variant[1], "similarity_space": "features" if compare == "words" else "words"})
    others = Captioner(random_model(*other)).captioned(TRACKS)
    assert any(not np.array_equal(ours.score_P, theirs.score_P) for ours, theirs in zip(want, others, strict=True))
    for made in (captioner(variant), captioner(variant, kernels=())):
        for ours, theirs in zip(made.captioned(TRACKS), want, strict=True):
            np.testing.assert_allclose(ours.reported_P2, theirs.reported_P2, atol=1e-3)
            np.testing.assert_allclose(ours.score_P, theirs.score_P, atol=1e-4)
    replayed = captioner(variant, "bfloat16")
    for _ in range(3):
        for track, theirs in zip(TRACKS, want, strict=True):
            ours = next(replayed.captioned([track]))
            assert len(ours.score_P) == len(theirs.score_P)
            assert np.abs(ours.score_P - theirs.score_P).mean() < 0.05
    assert not fast_captions(replayed).graphs.failed, fast_captions(replayed).graphs.failed


def check_confidence_with_actionness(windows: str) -> None:
    """Of summaries of short videos and of one that is read in several windows: as sure on both devices."""
    loaded = replace(random_model({"width": 64}), actionness=random_actionness(WIDTH))
    shown = LogisticCurve(("actionness",), (0.7,), -0.2)
    calibration = Calibration(LogisticCurve(("logit",), (1.0,), 0.5), IDENTITY, shown)
    rules = SummaryRules.of(loaded.config.inference, loaded.config.model.window, top=4)
    tracks = TRACKS if windows == "one window" else [random_track(130, 7)]

    def captioned_on(device: str) -> list[CaptionedVideo]:
        made = Captioner(loaded, device=torch.device(device), precision="float32")
        return list(LongVideoCaptioner(made, summary=rules, calibration=calibration).captioned(tracks))

    for ours, theirs in zip(captioned_on("cuda"), captioned_on("cpu"), strict=True):
        assert len(theirs.score_P)
        np.testing.assert_allclose(ours.score_P, theirs.score_P, atol=1e-4)
        np.testing.assert_allclose(ours.reported_P2, theirs.reported_P2, atol=1e-3)


def check_a_graph_gives_the_same_every_time(variant: Variant) -> None:
    """Word for word the captions of the launched form of the same kernels: the arithmetic is the same."""
    eager, replayed = captioner(variant, "bfloat16"), captioner(variant, "bfloat16")
    fast_captions(eager).graphs.enabled = False
    graphs = fast_captions(replayed).graphs
    for turn in range(3):
        for number, track in enumerate(TRACKS):
            what = f"turn {turn}, video {number} alone, captured {sorted(graphs.graphs, key=str)}"
            near(next(replayed.captioned([track])), next(eager.captioned([track])), what)
        for number, (ours, theirs) in enumerate(zip(replayed.captioned(TRACKS), eager.captioned(TRACKS), strict=True)):
            near(ours, theirs, f"turn {turn}, video {number} among all")
    kinds = {kind for kind, _ in graphs.graphs}
    assert not graphs.failed, graphs.failed
    assert kinds >= ({"words"} if fast_captions(replayed).graphed else set())
    assert kinds >= ({"proposals"} if fast_proposals(replayed).replays else set())
    straight = (
        fast_proposals(replayed).replays
        and fast_captions(replayed).graphed
        and variant[0].get("mask", "gated") != "discrete"
    )
    assert ("events" in kinds) == bool(straight and not replayed.behavior.mask_floor), kinds


def check_bfloat16_finds_the_same_and_is_nearly_as_sure(variant: Variant) -> None:
    def five(precision: str, **kind: Any) -> list[CaptionedVideo]:
        made = captioner(variant, precision, **kind)
        return [list(made.captioned(TRACKS, choose=lambda found: best(found, 5))) for _ in range(3)][-1]

    want = five("float32")
    for kind in KINDS:
        pairs = list(zip(five("bfloat16", **kind), want, strict=True))
        assert all(len(ours.sentences) == len(theirs.sentences) for ours, theirs in pairs), kind
        spread = np.concatenate([ours.log_probability_P - theirs.log_probability_P for ours, theirs in pairs])
        assert np.abs(spread).mean() < 0.3, (kind, np.abs(spread).mean())


def check_batches_change_nothing(variant: Variant) -> None:
    """In float32; in bfloat16 products of other sizes round otherwise."""
    whole = captioner(variant)
    narrow = captioner(variant)
    narrow.steps_at_once = 40
    pairs = zip(narrow.captioned(TRACKS * 2), whole.captioned(TRACKS * 2), strict=True)
    for number, (ours, theirs) in enumerate(pairs):
        near(ours, theirs, f"video {number}")


def check_suppression_by_a_kernel(candidates: int) -> None:
    generator = torch.Generator().manual_seed(candidates)
    overlapping = (torch.rand(5, candidates, candidates, generator=generator) < 0.05).cuda()
    assert torch.equal(triton_suppress(overlapping), suppress(overlapping))


def check_reading_a_memory(width: int) -> None:
    """Ragged events, those that rest among them, against the padded form in float32, in every way of reading."""
    torch.manual_seed(0)
    slots = torch.tensor([480, 1, 33, 32, 65, 7], dtype=torch.int32, device="cuda")
    first = slots.cumsum(0, dtype=torch.int32) - slots
    rows = torch.randn(int(slots.sum()), width, device="cuda", dtype=torch.bfloat16)
    log_count = torch.randn(len(rows), device="cuda")
    query = (torch.randn(8, len(slots), width, device="cuda") / 8).bfloat16().transpose(0, 1)
    theirs = Fused().ragged_attention(query.float(), RaggedMemory((rows.float(),), log_count, first, slots), 0)
    for tiling in (tiling_for(10), tiling_for(2976), AttentionTiling(32, 4, 2, 4), AttentionTiling(32, 4, 3, 1)):
        ours = TritonFused(tiling=tiling).ragged_attention(query, RaggedMemory((rows,), log_count, first, slots), 0)
        torch.testing.assert_close(ours.float(), theirs, atol=2e-2, rtol=2e-2, msg=lambda text, r=tiling: f"{r} {text}")


def check_words_so_far(width: int) -> None:
    """Word after word in bfloat16, against torch's attention."""
    shape, place = (200, 8, 24, width // 8), torch.zeros(1, dtype=torch.long, device="cuda")
    ours, theirs = (
        KeyValueCache(*([torch.zeros(shape, device="cuda", dtype=torch.bfloat16)] for _ in range(2)), place.clone())
        for _ in range(2)
    )
    causal_LL = torch.ones(24, 24, dtype=torch.bool, device="cuda").tril()
    for _ in range(20):
        projected = torch.randn(200, 3 * width, device="cuda", dtype=torch.bfloat16)
        seen, want = (
            fused.causal_attention(projected, cache, 0, 0.2, causal_LL)
            for fused, cache in ((TritonFused(), ours), (Fused(), theirs))
        )
        torch.testing.assert_close(seen, want, atol=3e-2, rtol=3e-2)
        ours.position_1 += 1
        theirs.position_1 += 1


def check_the_most_likely_word(words: int) -> None:
    logits = torch.randn(300, words, device="cuda") * 4
    number, log = most_likely(logits.clone(), NEVER_GENERATED)
    best = logits[:, NEVER_GENERATED:].log_softmax(dim=1).max(dim=1)
    assert torch.equal(number, best.indices + NEVER_GENERATED)
    torch.testing.assert_close(log, best.values, atol=1e-5, rtol=1e-5)


def check_the_papers_configuration(mask: str) -> None:
    """Events to one step and sentences of the plain version: float32 all, bfloat16 nearly all."""
    loaded = paper_model(Workload(2, 186, 480, 20, mask))
    tracks = random_tracks(loaded.config, 2, 480)
    plain = PlainCaptioner(loaded, device="cuda")
    theirs = [plain.caption(track) for track in tracks]
    for precision, least in (("float32", 1.0), ("bfloat16", 0.9), ("float16", 0.9)):
        made = Captioner(loaded, device="cuda", precision=precision)  # type: ignore[arg-type]
        for _ in range(3):
            found = list(made.captioned(tracks))
        shares = np.mean([agreement(ours, other) for ours, other in zip(found, theirs, strict=True)], axis=0)
        print(f"  {mask} {precision}: {shares[0]:.1%} intervals to a step, {shares[1]:.1%} sentences")
        assert shares[0] >= least, (precision, shares)
        assert precision != "float32" or shares[1] == 1, (precision, shares)


def check_the_parts_of_the_bench_run(quick: str) -> None:
    lines = part_lines(paper_model(Workload(1, 12, 48, 6, "gated", quick=True)), torch.device("cuda"), 8)
    assert len(lines) > 15 and not [line for line in lines[1:] if ": " in line], lines


CHECKS: list[tuple[Callable[[Any], None], list[Any]]] = [
    (check_suppression_by_a_kernel, [1, 7, 200, 512, 744]),
    (check_reading_a_memory, [64, 100, 512, 1024]),
    (check_words_so_far, [96, 512, 1024]),
    (check_the_most_likely_word, [34, 4004, 9000]),
    (check_float32_is_that_of_a_cpu, VARIANTS),
    (check_borders_and_contrast_by_word_prior, ["words", "features"]),
    (check_confidence_with_actionness, ["one window", "several"]),
    (check_a_graph_gives_the_same_every_time, VARIANTS),
    (check_bfloat16_finds_the_same_and_is_nearly_as_sure, VARIANTS),
    (check_batches_change_nothing, VARIANTS),
    (check_the_papers_configuration, ["gated", "discrete"]),
    (check_the_parts_of_the_bench_run, ["quick"]),
]


def pytest_generate_tests(metafunc: Any) -> None:
    """Every check with every value."""
    cases = [(check, value) for check, values in CHECKS for value in values]
    metafunc.parametrize(("check", "value"), cases, ids=[f"{check.__name__}-{value}" for check, value in cases])


def test_on_a_gpu(check: Callable[[Any], None], value: Any) -> None:
    import pytest

    if not (torch.cuda.is_available() and has_triton()):
        pytest.skip("needs a CUDA device and Triton")
    check(value)


def main() -> int:
    """Every check, or those named in part, whatever becomes of those before it; what failed stands at the end."""
    failed, named = [], sys.argv[1:]
    for check, values in CHECKS:
        if named and not any(name in check.__name__ for name in named):
            continue
        for value in values:
            try:
                check(value)
                print("passed", check.__name__, value, flush=True)
            except Exception:
                failed.append(f"FAILED {check.__name__} {value}\n{traceback.format_exc(limit=-3)}")
    print(f"{len(failed)} failed", *failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("needs a CUDA device")
    sys.exit(main())
