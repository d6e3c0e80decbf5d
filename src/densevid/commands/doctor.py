"""Show what is installed here: versions, backbones and how to get those that are missing, extras, device.

Examples:
  densevid doctor
  densevid doctor --json          (the same as one JSON object)

Exit code: 0, also where something optional is missing.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.util import find_spec
from typing import Any

import densevid
from densevid.errors import InputError, one_line, printable
from densevid.video.backbones import DEFAULT, backbone_names, find_backbone

EXTRAS = {
    "app": ("python_multipart", "starlette", "uvicorn"),
    "eval": ("pycocoevalcap",),
    "hdf5": ("h5py",),
    "plot": ("matplotlib",),
    "train": ("matplotlib", "tensorboard"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid doctor`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print what is installed."""
    found = state()
    print(json.dumps(found, indent=2, ensure_ascii=False) if args.json else printable_state(found))
    return 0


def state() -> dict[str, Any]:
    """What is installed, as plain values."""
    import av
    import onnxruntime
    import torch

    from densevid.device import network_device

    return {
        "densevid": densevid.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": network_device("auto"),
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "av": av.__version__,
        "ffmpeg": av.ffmpeg_version_info,
        "backbones": {name: _backbone_problem(name) or "present" for name in backbone_names()},
        "default_backbone": DEFAULT,
        "extras": {name: _extra_problem(name) or "present" for name in EXTRAS},
    }


def printable_state(found: dict[str, Any]) -> str:
    """The same as lines."""
    lines = [f"densevid {found['densevid']}, Python {found['python']}, {found['platform']}"]
    versions = ", ".join(f"{name} {found[name]}" for name in ("torch", "onnxruntime", "av"))
    lines += [f"{versions} (FFmpeg {found['ffmpeg']})", f"networks run on: {found['device']}", "backbones:"]
    for name, status in found["backbones"].items():
        lines.append(f"  {name}{' (default)' if name == found['default_backbone'] else ''}: {status}")
    lines += ["extras:", *(f"  {name}: {status}" for name, status in found["extras"].items())]
    return "\n".join(map(printable, lines))


def _backbone_problem(name: str) -> str | None:
    """Why a backbone cannot run here as a whole, None if it can."""
    try:
        stream = find_backbone(name).continuous
    except InputError as error:
        return one_line(error)
    problem = stream.problem() if stream else None
    return f"present without the stream {stream.name}: {problem}" if stream and problem else None


def _extra_problem(name: str) -> str | None:
    missing = [module for module in EXTRAS[name] if find_spec(module) is None]
    return f"without {', '.join(missing)}; pip install 'densevid[{name}]'" if missing else None
