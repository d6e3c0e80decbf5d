"""Time captioning against a plain dense version in one run, and compare their intervals and sentences.

By default: the paper's network with seeded random weights, with its gated mask and then with the discrete one, videos
of 480 steps, exactly 186 proposals a video, exactly 20 words a sentence. The plain version takes one video at a time
and encodes every proposal over all steps, in float32; on a GPU ours is timed in float32 and in bfloat16.

Examples:
  densevid bench inference --videos 64
  densevid bench inference --mask discrete --device cpu --videos 1
  densevid bench inference --model RUN/model --features store --videos 100 --floor 0.02
  densevid bench inference --store-run 4917
  densevid bench inference --stages
  densevid bench inference --sweep --precision bfloat16
  densevid bench inference --readings
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from benchmarks.inference_parts import print_readings
from benchmarks.inference_runs import ATTENTION, Run, print_figures
from benchmarks.inference_stages import print_stages, print_sweep
from benchmarks.inference_workload import Workload, prepare, print_store_run
from densevid.cli import run_program
from densevid.config import ModelConfig
from densevid.device import resolve_device, set_threads
from densevid.errors import InputError
from densevid.io import require_writable
from densevid.kernels.fused import KERNELS, Kernel

COUNTS = ("videos", "plain_videos", "top", "store_run", "at_once", "rounds", "threads")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--device", default=None, help="cpu, cuda, ... (default: cuda where there is one)")
    parser.add_argument("--videos", type=int, default=None, help="videos together (default: 256 on CUDA, else 2)")
    parser.add_argument(
        "--plain-videos", type=int, default=None, help="videos for the plain version (4 on CUDA, else 1)"
    )
    parser.add_argument("--proposals", type=int, default=186, help="events a video (186)")
    parser.add_argument("--steps", type=int, default=480, help="steps a video (480)")
    parser.add_argument("--words", type=int, default=20, help="words a sentence, forced (20)")
    parser.add_argument(
        "--mask", choices=("gated", "learned", "discrete"), help="(gated and discrete; gated with one of the 'instead')"
    )
    parser.add_argument("--floor", type=float, default=0.0, help="inference.mask_floor (0: exact)")
    parser.add_argument("--top", type=int, default=10, help="also caption only the best so many, by score (10)")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a trained model, with its own settings")
    parser.add_argument("--features", type=Path, metavar="STORE", help="real features for it")
    parser.add_argument("--store-run", type=int, metavar="N", help="instead: N generated videos, store to predictions")
    parser.add_argument(
        "--at-once", type=int, metavar="N", help="videos of full length in a batch (16 to 64 on CUDA, else 4)"
    )
    parser.add_argument(
        "--rounds", type=int, default=None, metavar="N", help="the median of so many (3 on CUDA, else 1)"
    )
    parser.add_argument("--precision", choices=("float32", "bfloat16", "float16"), default=None, help="this one only")
    parser.add_argument(
        "--kernels",
        default="all",
        metavar="NAMES",
        help=f"ours on CUDA: all, none, or of {','.join(KERNELS)} (all)",
    )
    parser.add_argument(
        "--attention",
        choices=ATTENTION,
        default=ATTENTION[0],
        help=f"implementation in the encoder, on CUDA ({ATTENTION[0]})",
    )
    parser.add_argument("--no-capture", action="store_true", help="replay nothing as a CUDA graph")
    parser.add_argument("--stages", action="store_true", help="instead: what each stage, and each part of it, takes")
    parser.add_argument("--sweep", action="store_true", help="instead: a line for every choice of the above, best last")
    parser.add_argument("--readings", action="store_true", help="instead: ways to read events' memories, on CUDA")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads")
    parser.add_argument("--profile", action="store_true", help="list what takes the most time")
    parser.add_argument("--quick", action="store_true", help="a tiny network and two short videos: does it run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    _check(args)
    if args.threads is not None:
        set_threads(args.threads, print)
    device = resolve_device(args.device)
    if args.readings:
        return _readings(device)
    if args.quick:
        args.proposals, args.steps, args.words = min(args.proposals, 12), min(args.steps, 48), min(args.words, 6)
    videos = args.store_run or args.videos or (256 if device.type == "cuda" else 2)
    masks = (args.mask,) if args.mask else ("gated", "discrete") if args.model is None else ("gated",)
    shape = args.proposals, args.steps, args.words
    workloads = [Workload(videos, *shape, mask, args.floor, args.quick) for mask in masks]
    options = Run(
        device,
        args.plain_videos or (4 if device.type == "cuda" else 1),
        top=args.top,
        at_once=args.at_once,
        kernels=_kernels(args.kernels),
        attention=args.attention,
        cuda_graphs=not args.no_capture,
        profile=args.profile,
        precision=args.precision,
        rounds=args.rounds or (3 if device.type == "cuda" else 1),
    )
    if args.store_run:
        print_store_run(workloads[0], device, args.precision)
    elif args.stages or args.sweep:
        work = print_stages if args.stages else print_sweep
        work(*prepare(workloads[0], args.model, args.features), options)
    else:
        print_figures(workloads, options, model=args.model, features=args.features, json=args.json)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse flags that cannot be followed or would be ignored."""
    for name in COUNTS:
        if (count := getattr(args, name)) is not None and count < 1:
            raise InputError(f"--{name.replace('_', '-')} must be at least 1, got {count}")
    if args.features is not None and args.model is None:
        raise InputError("--features needs the --model that reads them")
    if args.store_run and args.model is not None:
        raise InputError("--store-run makes its own model and videos; leave out --model and --features")
    if args.json is not None:
        if args.store_run or args.stages or args.sweep or args.readings:
            raise InputError("--json writes the comparison with the plain version, and this run has none")
        require_writable(args.json)


def _readings(device: torch.device) -> int:
    """Time ways to read memories, at the paper's width."""
    if device.type != "cuda":
        raise InputError(f"--readings times a kernel for CUDA, and the device is {device}")
    print_readings(ModelConfig().width, device)
    return 0


def _kernels(names: str) -> tuple[Kernel, ...]:
    """The kernels of --kernels."""
    listed: dict[str, set[str]] = {"all": set(KERNELS), "none": set()}
    chosen = listed.get(names, set(names.split(",")))
    if unknown := sorted(chosen - set(KERNELS)):
        raise InputError(f"--kernels: there is no {unknown[0]!r}; name some of {','.join(KERNELS)}, or all, or none")
    return tuple(kernel for kernel in KERNELS if kernel in chosen)


if __name__ == "__main__":
    sys.exit(run_program("python -m benchmarks.inference", __doc__, add_arguments, run))
