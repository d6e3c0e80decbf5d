"""Time whole training steps of the paper's configuration against an eager float32 version, in one run on one GPU.

A step is forward, backward, clipping and SGD over distinct videos already on the device, one segment of 20 words each,
dropout on. The model is the paper's: width 1024, hidden 2048, 2 layers, 480 steps, 3072 features, 18 kernels, gated
mask. Then the training step of `densevid train` is fed in three ways: from batches that are on the device, from
features that live there, and from a feature store that other processes read (a few GB in the folder for temporary
files).

Utilisation is of the dense bfloat16 peak that the maker of the GPU publishes, where it is known here.

Examples:
  densevid bench train
  densevid bench train --batch 64 --steps 5 --json figures.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.hardware import share_of_peak
from benchmarks.train_feeding import VOCABULARY, generated_batch, measure_feeding, print_feeding
from densevid.cli import run_program
from densevid.config import Config, load_config
from densevid.errors import InputError
from densevid.io import provenance, write_json
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.objective import total_loss
from densevid.training.optim import optimizer_for


@dataclass(frozen=True)
class Variant:
    """One way to run the step."""

    name: str
    fast_heads: bool = True
    bfloat16: bool = True
    compiled: bool = False
    batch: int | None = None
    segments: int = 1  # of a video, which is encoded once for all of them


@dataclass(frozen=True)
class Figure:
    """What one variant reached; `utilisation` is of the peak, None where that is not known or would mean nothing.

    The arithmetic is that of one segment a video, so no figure is given for several.
    """

    name: str
    batch: int
    milliseconds: float
    samples_per_second: float
    teraflops: float | None
    utilisation: float | None
    memory_gib: float


VARIANTS = (
    Variant("eager float32, plain heads", fast_heads=False, bfloat16=False, batch=64),
    Variant("eager bfloat16, plain heads", fast_heads=False),
    Variant("eager bfloat16, fast heads"),
    Variant("compiled bfloat16, fast heads", compiled=True),
    Variant("the same eager, 4 segments a video", batch=64, segments=4),
)


def print_figures(
    batch: int, steps: int, *, only: str = "", workers: int = 8, profile: bool = False, json: Path | None = None
) -> None:
    """Time every variant whose name contains `only`, or all and then the ways to feed them, and print a table."""
    if not torch.cuda.is_available():
        raise InputError("bench train needs a CUDA device; on a CPU time your own run with `densevid train`")
    config = load_config("activitynet")
    figures = []
    for variant in VARIANTS:
        if only in variant.name:
            figures.append(measure(variant, config, batch, steps, profile=profile))
            print(row(figures[-1]), flush=True)
    fed = []
    if not only:
        trained = config.with_settings(['training.precision="bfloat16"'])
        fed = measure_feeding(trained, batch, steps, workers, torch.device("cuda"))
        print_feeding(fed, batch)
    if json:
        tables = {"figures": [asdict(figure) for figure in figures], "fed": [asdict(way) for way in fed]}
        content = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, **tables}
        write_json(json, {**content, "provenance": provenance(config_hash=config.hash)})


def row(figure: Figure) -> str:
    """One line of the table."""
    work = "" if figure.teraflops is None else f"{figure.teraflops:.0f} TFLOP/s"
    share = "" if figure.utilisation is None else f"{figure.utilisation:.0%} of the peak"
    return (
        f"{figure.name:36} {figure.batch:4d} videos  {figure.milliseconds:8.1f} ms  "
        f"{figure.samples_per_second:8.0f} samples/s  {figure.memory_gib:6.1f} GiB  {work:12}  {share}"
    )


def measure(variant: Variant, config: Config, batch_size: int, steps: int, *, profile: bool = False) -> Figure:
    """Median of timed whole steps, after warming up."""
    size = min(variant.batch or batch_size, batch_size)
    torch.manual_seed(0)
    model = MaskedTransformer(config, VOCABULARY).cuda().train()
    model.proposal_decoder.fast = variant.fast_heads
    if variant.compiled:
        compile_parts(model)
    optimizer = optimizer_for(model, config.training)
    batch = generated_batch(config, size, variant.segments)
    torch.cuda.reset_peak_memory_stats()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=variant.bfloat16):
            loss, _ = total_loss(model, batch, config)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.training.gradient_clip)
        optimizer.step()

    milliseconds = timed(step, steps)
    if profile:
        print_profile(step)
    work = flop_per_sample(config) * size / milliseconds / 1e9 if variant.segments == 1 else None
    figure = Figure(
        variant.name,
        size,
        milliseconds,
        size * variant.segments / milliseconds * 1e3,
        work,
        share_of_peak(work, torch.cuda.get_device_name()) if work is not None and variant.bfloat16 else None,
        torch.cuda.max_memory_allocated() / 2**30,
    )
    torch.cuda.empty_cache()
    return figure


def compile_parts(model: MaskedTransformer) -> None:
    """Compile what repeats: encoder and decoder layers and the embedding; the heads have kernels of their own."""
    for layer in (*model.encoder.layers, *model.caption_decoder.layers, model.input_embedding):  # type: ignore[misc]
        layer.compile()


def timed(step: Callable[[], None], repeats: int) -> float:
    """Median milliseconds of a step, by device events."""
    for _ in range(4):
        step()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def flop_per_sample(config: Config) -> float:
    """Multiplications and additions of one sample's step (forward and twice that backward), products alone."""
    model, words = config.model, config.training.max_words
    d, hidden, steps = model.width, model.hidden, model.window
    features = sum(config.features.widths)
    encoder_layer = steps * (4 * d * d + 2 * d * hidden) + 2 * steps * steps * d
    decoder_layer = words * (6 * d * d + 2 * d * hidden + 2 * words * d + 2 * steps * d) + 2 * steps * d * d
    anchors = MaskedTransformer.anchor_grid(model).counts(steps)
    heads = sum(count * (kernel * d + d * d + 4 * d) for count, kernel in zip(anchors, model.kernels, strict=True))
    products = steps * features * d + 2 * model.layers * encoder_layer + model.layers * decoder_layer
    return 2 * 3 * (products + heads + words * d * VOCABULARY)


def print_profile(step: Callable[[], None]) -> None:
    """The kernels of one step by the time they take on the device."""
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler:
        step()
        torch.cuda.synchronize()
    print(profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=70))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--batch", type=int, default=256, help="videos a step (default 256)")
    parser.add_argument("--steps", type=int, default=10, help="timed steps (default 10)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only variants whose name contains this")
    parser.add_argument("--workers", type=int, default=8, help="processes that read the store (default 8)")
    parser.add_argument("--profile", action="store_true", help="list the kernels that take the most time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")


def run(args: argparse.Namespace) -> int:
    """Time every variant and print a table."""
    for name, least in (("batch", 2), ("steps", 1), ("workers", 0)):
        if getattr(args, name) < least:
            raise InputError(f"--{name} must be at least {least}, got {getattr(args, name)}")

    print_figures(args.batch, args.steps, only=args.only, workers=args.workers, profile=args.profile, json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m benchmarks.train", __doc__, add_arguments, run))
