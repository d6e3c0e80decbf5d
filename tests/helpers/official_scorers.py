"""The text scorers of `pycocoevalcap` as they are, for the plain protocols of `tests/reference`."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from helpers.official_jars import java

NAMES = ("METEOR", "Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr")
Pairs = Sequence[tuple[str, Sequence[str]]]


class OfficialScorers:
    """METEOR's jar is started once; it answers a pair that it has seen from memory, which changes nothing."""

    def __init__(self) -> None:
        os.environ["PATH"] = os.pathsep.join((os.path.dirname(java()), os.environ.get("PATH", "")))  # noqa: PTH120
        from pycocoevalcap.meteor.meteor import Meteor

        self._tokenized: dict[tuple[str, ...], list[str]] = {}
        self._meteor: Any = Meteor()
        ask = cache(self._meteor._stat)
        self._meteor._stat = lambda hypothesis, references: ask(hypothesis, tuple(references))

    def close(self) -> None:
        self._meteor.meteor_p.stdin.close()
        self._meteor.meteor_p.kill()
        self._meteor.meteor_p.wait()

    def tokenize(self, captions: Sequence[str]) -> list[str]:
        """All captions as one file, as the evaluators write them; a Java program a file, so each file only once."""
        captions = tuple(captions)
        if captions not in self._tokenized:
            self._tokenized[captions] = self._run_tokenizer(captions)
        return self._tokenized[captions]

    def _run_tokenizer(self, captions: Sequence[str]) -> list[str]:
        from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

        if not captions:
            return []
        ascii_only = ["".join(c if ord(c) < 128 else " " for c in caption) for caption in captions]
        with _stderr_closed():
            tokens = PTBTokenizer().tokenize({n: [{"caption": text}] for n, text in enumerate(ascii_only)})
        return [tokens[n][0] for n in range(len(captions))]

    def corpus(self, pairs: Pairs) -> dict[str, float]:
        """All metrics of (hypothesis, references) pairs as one corpus; 0 without a pair."""
        if not pairs:
            return dict.fromkeys(NAMES, 0.0)
        gts, res = _as_dicts(pairs)
        return (
            {"METEOR": self._corpus_meteor(pairs)} | _bleu(gts, res) | _rouge(gts, res) | {"CIDEr": _cider(gts, res)[0]}
        )

    def meteor(self, pairs: Pairs) -> list[float]:
        """METEOR of each pair by itself."""
        return [float(score) for score in self._meteor.compute_score(*_as_dicts(pairs))[1]] if pairs else []

    def cider(self, pairs: Pairs) -> list[float]:
        """CIDEr of each pair, all references being the documents."""
        return list(map(float, _cider(*_as_dicts(pairs))[1])) if pairs else []

    def _corpus_meteor(self, pairs: Pairs) -> float:
        return float(self._meteor.compute_score(*_as_dicts(pairs))[0])


class OwnMeteor(OfficialScorers):
    """Text that is tokenized already, scored by our METEOR: no Java, so fast enough for thousands of small cases."""

    def __init__(self, meteor: Any) -> None:
        self._scorer = meteor

    def tokenize(self, captions: Sequence[str]) -> list[str]:
        return list(captions)

    def meteor(self, pairs: Pairs) -> list[float]:
        from densevid.evaluation.meteor.statistics import segment_scores

        return segment_scores(self._statistics(pairs)).tolist()

    def _corpus_meteor(self, pairs: Pairs) -> float:
        from densevid.evaluation.meteor.statistics import corpus_score

        return corpus_score(self._statistics(pairs))

    def _statistics(self, pairs: Pairs) -> np.ndarray:
        return self._scorer.statistics([(hypothesis, tuple(references)) for hypothesis, references in pairs])


def _as_dicts(pairs: Pairs) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    return {n: list(refs) for n, (_, refs) in enumerate(pairs)}, {n: [hyp] for n, (hyp, _) in enumerate(pairs)}


def _bleu(gts: Any, res: Any) -> dict[str, float]:
    from pycocoevalcap.bleu.bleu import Bleu

    with contextlib.redirect_stdout(io.StringIO()):
        scores = Bleu(4).compute_score(gts, res)[0]
    return {f"Bleu_{n}": float(score) for n, score in enumerate(scores, start=1)}


def _rouge(gts: Any, res: Any) -> dict[str, float]:
    from pycocoevalcap.rouge.rouge import Rouge

    return {"ROUGE_L": float(Rouge().compute_score(gts, res)[0])}


def _cider(gts: Any, res: Any) -> tuple[float, Sequence[float]]:
    from pycocoevalcap.cider.cider import Cider

    try:
        score, each = Cider().compute_score(gts, res)
    except ValueError:  # it crashes where no reference has a word
        return 0.0, [0.0] * len(res)
    return float(score), each


@contextlib.contextmanager
def _stderr_closed() -> Iterator[None]:
    """The tokenizer reports its speed on the standard error of the terminal."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
