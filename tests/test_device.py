"""Devices by name: what is on this machine, and one line about what is not."""

from __future__ import annotations

import os
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


FREED = """
import sys
from pathlib import Path
from densevid.device import return_memory
if sys.argv[1] == "returned":
    return_memory()
for number in range(2):  # after the first block is freed, glibc takes blocks of its size from the heap
    blocks = [b"x" * (4 << 20) for _ in range(1 + 40 * number)]
    pin = b"y" * 1000
    del blocks
print(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_freed_memory_goes_back_to_the_system() -> None:
    def kilobytes(name: str, **variables: str) -> int:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")} | variables
        command = [sys.executable, "-c", FREED, name]
        return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    returned = kilobytes("returned")
    assert returned < 100_000, "of 160 MB that were freed"
    assert kilobytes("returned", MALLOC_ARENA_MAX="4") == pytest.approx(kilobytes("kept"), rel=0.2), "the user's own"
