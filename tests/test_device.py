"""Devices by name: what is on this machine, and one line about what is not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from densevid.device import TRAINING, has_bfloat16_instructions, network_device, resolve_device
from densevid.errors import ArgumentError


def test_auto_is_a_gpu_only_where_there_is_one() -> None:
    wanted = "cuda" if torch.cuda.is_available() else "cpu"
    assert resolve_device("auto").type == resolve_device(None).type == network_device("auto") == wanted
    assert resolve_device("cpu") == torch.device("cpu") and network_device("cpu") == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_one_error_for_networks_captions_and_training() -> None:
    errors = []
    for find in (resolve_device, network_device, lambda name: resolve_device(name, TRAINING)):
        with pytest.raises(ArgumentError) as error:
            find("cuda")
        errors.append((str(error.value), error.value.with_flags))
    assert len(set(errors)) == 1
    assert errors[0][0].startswith("device cuda: this machine has no usable CUDA device; use cpu")
    assert errors[0][1].startswith("--device cuda: ")


@pytest.mark.parametrize(
    ("name", "kinds", "complaint"),
    [
        ("abacus", TRAINING, "no such kind of device; there are cpu and cuda"),
        ("mps", TRAINING, "not a device to do this on; there are cpu and cuda"),
        ("cpu:1", TRAINING, "no usable CPU device of that number; use cpu"),
    ],
)
def test_a_device_that_cannot_do_the_work_names_those_that_can(name, kinds, complaint) -> None:
    with pytest.raises(ArgumentError, match=f"device {name}: .*{complaint}"):
        resolve_device(name, kinds)


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="the processor's flags are in /proc on Linux alone")
def test_bfloat16_instructions_are_those_that_the_processor_names() -> None:
    flags = {flag for line in Path("/proc/cpuinfo").read_text().splitlines() for flag in line.split()}
    assert has_bfloat16_instructions() == bool(flags & {"avx512_bf16", "amx_tile"})


ARENAS = """
import ctypes, sys, threading
from densevid.device import share_memory
if sys.argv[1] == "shared":
    share_memory()
together = threading.Barrier(4)
libc = ctypes.CDLL(None)  # which leaves the lock of Python while it works
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc.malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_threads_allocate_from_one_arena_unless_the_user_has_settings() -> None:
    def arenas(name: str, **variables: str) -> int:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")} | variables
        command = [sys.executable, "-c", ARENAS, name]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr.count(
            "Arena"
        )

    assert arenas("shared") == 1 < arenas("own")
    assert arenas("shared", MALLOC_ARENA_MAX="3") > 1, "the user's own"
