"""Native METEOR in a process of its own: `python -m densevid.evaluation.metrics.meteor_worker`.

The parent sends a batch of pairs as one line of JSON and gets 23 whole numbers (32 bit) a pair.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import numpy as np

from densevid.evaluation.files import Floats
from densevid.evaluation.java import STATISTICS, ChildProcess, Heard, Pair, ignore

NUMBER = np.dtype("<i4")


class MeteorWorker(ChildProcess):
    """The parent's side."""

    def __init__(self) -> None:
        search = os.pathsep.join(folder for folder in sys.path if folder)
        environment = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        super().__init__("METEOR", [sys.executable, "-m", "densevid.evaluation.metrics.meteor_worker"], environment)

    def statistics(self, pairs: Sequence[Pair], heard: Heard = ignore) -> Floats:
        """One row of 23 numbers a pair, in order."""
        self.send(json.dumps(pairs).encode("ascii") + b"\n")
        size = len(pairs) * STATISTICS * NUMBER.itemsize
        content = self.answers.read(size)
        if len(content) < size:
            raise self.failure("stopped in the middle of its work")
        heard(len(pairs))
        return np.frombuffer(content, dtype=NUMBER).astype(np.float64).reshape(-1, STATISTICS)


def main() -> None:
    """The child's side: answer batches until the parent closes the line."""
    from densevid.evaluation.meteor import statistics as native_meteor

    for line in sys.stdin:
        pairs = [(hypothesis, tuple(references)) for hypothesis, references in json.loads(line)]
        sys.stdout.buffer.write(native_meteor.statistics(pairs).astype(NUMBER).tobytes())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
