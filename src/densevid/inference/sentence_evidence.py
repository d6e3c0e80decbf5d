"""Sentence evidence: what is known about the sentences of an event, from which its sentence confidence follows.

    beam, word prior, tags -> BeamEvidence (tensors of a batch) -> SentenceEvidence (words of one event)

It is collected where captions are generated, since nothing of it can be had later without the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.inference.search import Beams, sentence_lengths
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.tags import Labels
from densevid.video.labels import action_phrases, class_names

SMALLEST_VALUE = 1e-6  # of a label, before the logit


@dataclass(frozen=True)
class NamedLabel:
    """A class that was predicted for an event.

    Attributes:
        name: Its name.
        phrase: Its wording after "someone is"; None where it is no action.
        value: How far it can be trusted, 0 to 1.
    """

    name: str
    phrase: str | None
    value: float


@dataclass(frozen=True)
class StreamTrust:
    """How far the labels of a stream can be trusted: sigmoid(slope x logit(value) + bias + effect of the class).

    A classifier has classes that it predicts for whatever looks like nothing else, so each class has an effect of its
    own, 0 for one that was never predicted (`fitting/label_trust.py`).
    """

    slope: float = 1.0
    bias: float = 0.0
    effects: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, label: NamedLabel) -> float:
        """The value that a label deserves."""
        value = min(max(label.value, SMALLEST_VALUE), 1 - SMALLEST_VALUE)
        logit = math.log(value) - math.log1p(-value)
        return 1 / (1 + math.exp(-(self.slope * logit + self.bias + self.effects.get(label.name, 0.0))))

    def as_table(self) -> dict[str, Any]:
        """TOML values."""
        effects = list(self.effects.values())
        return {"slope": self.slope, "bias": self.bias, "classes": list(self.effects), "effects": effects}

    @classmethod
    def of_table(cls, table: Any) -> StreamTrust:
        """Back from `as_table`; without a table the values stay as they are.

        Raises:
            InputError: It is something else.
        """
        if table is None:
            return cls()
        try:
            effects = dict(zip(map(str, table["classes"]), map(float, table["effects"]), strict=True))
            made = cls(float(table["slope"]), float(table["bias"]), effects)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the trust in labels needs slope, bias, classes and effects: {error!r:.60}") from error
        if not all(map(math.isfinite, [made.slope, made.bias, *effects.values()])):
            raise InputError("the trust in labels has numbers that are not finite")
        return made


@dataclass(frozen=True)
class LabelTrust:
    """How far labels can be trusted, actions and objects apart."""

    actions: StreamTrust = field(default_factory=StreamTrust)
    objects: StreamTrust = field(default_factory=StreamTrust)

    def applied(self, evidence: SentenceEvidence) -> SentenceEvidence:
        """Evidence whose labels have the values that they deserve."""
        labels = (
            replace(label, value=(self.objects if label.phrase is None else self.actions)(label))
            for label in evidence.labels
        )
        return replace(evidence, labels=tuple(labels))


@dataclass(frozen=True)
class SentenceEvidence:
    """What is known about the sentences of one event.

    Attributes:
        caption: The model's sentence.
        sentences: The sentences of the beam.
        log_probability: Of each, the sum over its words.
        prior: By how much the word prior changes the share of sentences that have a word, for words of the beam.
        labels: Predicted classes.
        proposal_score: The network's score of the span; 1 for a given span.
    """

    caption: str
    sentences: tuple[str, ...]
    log_probability: tuple[float, ...]
    prior: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[NamedLabel, ...] = ()
    proposal_score: float = 1.0

    def as_plain(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        return {
            "caption": self.caption,
            "sentences": list(self.sentences),
            "log_probability": [round(value, 4) for value in self.log_probability],
            "prior": {word: round(value, 4) for word, value in self.prior.items()},
            "labels": [[label.name, label.phrase, label.value] for label in self.labels],
            "proposal_score": self.proposal_score,
        }

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> SentenceEvidence:
        """Back from `as_plain`.

        Raises:
            InputError: It is something else.
        """
        try:
            pairs = [
                (str(text), float(log)) for text, log in zip(plain["sentences"], plain["log_probability"], strict=True)
            ]
            return cls(
                str(plain["caption"]),
                tuple(text for text, _ in pairs),
                tuple(log for _, log in pairs),
                {str(word): float(value) for word, value in plain["prior"].items()},
                tuple(NamedLabel(str(name), phrase, float(value)) for name, phrase, value in plain["labels"]),
                float(plain["proposal_score"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not the evidence of an event: {error!r:.80}") from error


@dataclass(frozen=True)
class BeamEvidence:
    """What is known about the sentences of P events, as tensors.

    Attributes:
        words_PKL: The sentences of the beam.
        log_probability_PK: Of each, the sum over its words; -inf where there is none.
        prior_PKL: By how much the word prior changes the share of sentences with each of these words; None without one.
        label_PN: The numbers of the predicted classes; None without tags.
        value_PN: How far each can be trusted; 0 where its stream is absent.
    """

    words_PKL: Tensor
    log_probability_PK: Tensor
    prior_PKL: Tensor | None = None
    label_PN: Tensor | None = None
    value_PN: Tensor | None = None

    @classmethod
    def of(cls, beams: Beams, change_PV: Tensor | None = None, labels: Labels | None = None) -> BeamEvidence:
        """What is known of a beam.

        Args:
            beams: The candidates of each event.
            change_PV: `WordPrior.changes` of each event.
            labels: Predicted classes of each event.
        """
        words_PKL = beams.words_PKL
        log_PK = beams.log_probability_PK * sentence_lengths(words_PKL)
        prior_PKL = None if change_PV is None else change_PV.gather(1, words_PKL.flatten(1)).view(words_PKL.shape)
        if labels is None:
            return cls(words_PKL, log_PK, prior_PKL)
        return cls(words_PKL, log_PK, prior_PKL, labels.label_PN, labels.value_PN * labels.valid_PN)

    @property
    def columns(self) -> dict[str, Tensor]:
        """Every tensor that there is, by its name."""
        return {name: tensor for name, tensor in vars(self).items() if tensor is not None}

    def cpu(self) -> BeamEvidence:
        """The same on the host."""
        return BeamEvidence(**{name: tensor.cpu() for name, tensor in self.columns.items()})


class EvidenceTexts:
    """Turns the evidence of a batch, on the host, into words.

    Args:
        vocabulary: The words of the model.
        detokenize: Turns the words of sentences, P x L, into text.
        model: The network, whose predicted classes are numbered over its streams.
        streams: The names of the streams.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        detokenize: Callable[[Tensor], list[str]],
        model: MaskedTransformer,
        streams: tuple[str, ...],
    ) -> None:
        self.vocabulary, self.detokenize = vocabulary, detokenize
        counts = [] if model.tagger is None else model.tagger.classes
        known = [name for name, count in zip(streams, counts, strict=False) if count]
        self.names = [name for stream in known for name in class_names(stream)]
        self.phrases = action_phrases() if "actions" in known else {}

    def __call__(self, beams: BeamEvidence, captions: list[str], scores: list[float]) -> list[SentenceEvidence]:
        """The evidence of each event, with its caption and the score of its proposal."""
        events, candidates, _ = beams.words_PKL.shape
        sentences = self.detokenize(beams.words_PKL.flatten(0, 1))
        log_PK = beams.log_probability_PK.tolist()
        found = []
        for event in range(events):
            own = sentences[event * candidates : (event + 1) * candidates]
            pairs = [pair for pair in zip(own, log_PK[event], strict=True) if pair[0] and pair[1] > -torch.inf]
            found.append(
                SentenceEvidence(
                    captions[event],
                    tuple(sentence for sentence, _ in pairs),
                    tuple(log for _, log in pairs),
                    self._prior(beams, event),
                    self._labels(beams, event),
                    scores[event],
                )
            )
        return found

    def _prior(self, beams: BeamEvidence, event: int) -> dict[str, float]:
        if beams.prior_PKL is None:
            return {}
        words, values = beams.words_PKL[event].flatten().tolist(), beams.prior_PKL[event].flatten().tolist()
        return {self.vocabulary.tokens[word]: value for word, value in zip(words, values, strict=True)}

    def _labels(self, beams: BeamEvidence, event: int) -> tuple[NamedLabel, ...]:
        if beams.label_PN is None or beams.value_PN is None:
            return ()
        names = (self.names[number] for number in beams.label_PN[event].tolist())
        pairs = zip(names, beams.value_PN[event].tolist(), strict=True)
        return tuple(NamedLabel(name, self.phrases.get(name), value) for name, value in pairs if value > 0)
