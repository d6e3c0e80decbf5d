"""METEOR in a process of its own, so that a large evaluation uses every core.

`scorer` starts one a core (`python -m densevid.evaluation.meteor.worker`). It sends a batch of pairs as one line of
JSON and reads 23 whole numbers (32 bit) a pair. A plain child process, unlike `multiprocessing`, neither imports the
caller's `__main__` nor forks a process with threads.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.meteor.statistics import STATISTICS, Pair, Statistics, statistics

NUMBER = np.dtype("<i4")


class MeteorWorker:
    """The parent's side: a child process that computes statistics, ended by `close` or with this process."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        search = os.pathsep.join(folder for folder in sys.path if folder)
        environment = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "densevid.evaluation.meteor.worker"]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._stderr, env=environment)
        except OSError as error:
            raise InputError(f"METEOR cannot be started: {command[0]}: {error.strerror}") from error
        atexit.register(self.close)

    def statistics(self, pairs: Sequence[Pair]) -> Statistics:
        """N x 23 statistics, in order.

        Raises:
            InputError: The process ended before it had answered.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        size = len(pairs) * STATISTICS * NUMBER.itemsize
        content = b""
        with suppress(OSError, ValueError):  # the process is gone: too little comes back
            stdin.write(json.dumps(pairs).encode("ascii") + b"\n")
            stdin.flush()
            content = stdout.read(size)
        if len(content) < size:
            raise InputError(f"METEOR stopped: {self._last_error()}")
        return np.frombuffer(content, dtype=NUMBER).astype(np.float64).reshape(-1, STATISTICS)

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with suppress(OSError, ValueError):  # what was still to be written has no reader any more
                    stream.close()

    def _last_error(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        lines = []
        with suppress(OSError, ValueError):  # already closed
            self._stderr.seek(0)
            lines = self._stderr.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else f"exit code {self._process.poll()}"


def main() -> None:
    """The child's side: answer batches until the parent closes the line."""
    for line in sys.stdin:
        pairs = [(hypothesis, tuple(references)) for hypothesis, references in json.loads(line)]
        sys.stdout.buffer.write(statistics(pairs).astype(NUMBER).tobytes())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
