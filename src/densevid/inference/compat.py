"""Behavior: where using a model differs between the paper and the release. What is read, selected and generated.

`Captioner` holds one `PaperBehavior` or `ReleasedBehavior`, by `model.compat`, and knows nothing of the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from densevid.config import Config
from densevid.data.vocabulary import CLITICS, EOS, PAD, SPECIAL_TOKENS, Vocabulary
from densevid.inference.nms import Lengths, Selection, SelectionAttempt, released_end, select, select_released
from densevid.inference.search import Beams, State, WordStepper, greedy_released, is_greedy, search
from densevid.model.proposal_decoder import Proposals


class Detokenizer:
    """The text of `Vocabulary.decode` for a whole batch: every word with the space before it, but for clitics."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        pieces = [token if token in CLITICS else f" {token}" for token in vocabulary.tokens]
        pieces[: len(SPECIAL_TOKENS)] = [""] * len(SPECIAL_TOKENS)
        self.piece_V = np.array(pieces, dtype=object)

    def __call__(self, words_PL: Tensor) -> list[str]:
        """The sentence of every row, up to its first `<eos>`."""
        words = words_PL.numpy()
        ended = np.where((words == EOS).cumsum(axis=1) > 0, PAD, words)
        texts = ["".join(pieces) for pieces in self.piece_V[ended].tolist()]
        return [self._tidied(text, words[row]) for row, text in enumerate(texts)]

    def _tidied(self, text: str, words_L: npt.NDArray[np.int64]) -> str:
        """Without the first space; a clitic that has no word before it stands alone."""
        return text[1:] if text[:1] in ("", " ") else self.vocabulary.decode(words_L.tolist())


@dataclass(frozen=True)
class PaperBehavior:
    """The paper: a video is read as long as it is, intervals end where it ends, a sentence ends with `<eos>`."""

    config: Config

    @property
    def reads_all(self) -> bool:
        """Whether a video longer than the window is read in several."""
        return self.config.inference.read != "first-window"

    def steps_read(self, steps: int) -> int:
        """How many steps the network reads for a video of `steps`, zeros after its own."""
        return steps

    def end(self, steps: int, seconds_per_step: float) -> float:
        """Where intervals must end, in steps."""
        return steps

    @property
    def mask_floor(self) -> float:
        """The largest event mask that is taken for none."""
        return self.config.inference.mask_floor

    def select(self, proposals: Proposals, lengths: Lengths) -> Selection:
        """The proposals of every video that are captioned."""
        return self.attempt(proposals, lengths, allow_sync=True).selection

    def attempt(self, proposals: Proposals, lengths: Lengths, *, allow_sync: bool = False) -> SelectionAttempt:
        """The same; without `allow_sync` from the best candidates alone, and whether they were enough."""
        return select(proposals, lengths, self.config.inference, allow_sync=allow_sync)

    def generate(self, stepper: WordStepper, state: State, events: int, *, allow_sync: bool = True) -> Beams:
        """Generate the candidate sentences of each event, by the method of the settings."""
        return search(stepper, state, events, self.config.inference, allow_sync=allow_sync)

    def detokenizer(self, vocabulary: Vocabulary) -> Callable[[Tensor], list[str]]:
        """What turns the words of many events, P x L on the host, into text."""
        return Detokenizer(vocabulary)


@dataclass(frozen=True)
class ReleasedBehavior(PaperBehavior):
    """The authors' code: zeros up to the window with a learned mask, its own end of a video, words that never stop."""

    @property
    def reads_all(self) -> bool:
        """Only with `inference.read = "all"`."""
        return self.config.inference.read == "all"

    def steps_read(self, steps: int) -> int:
        """The whole window with a learned mask, else the video's own steps."""
        return steps if self.config.model.mask == "discrete" else self.config.model.window

    def end(self, steps: int, seconds_per_step: float) -> float:
        """The release's mixed units."""
        return released_end(steps, seconds_per_step)

    @property
    def mask_floor(self) -> float:
        """The release's mask is a raw logit, of which small values mean nothing: only zeros are left out."""
        return 0.0

    def attempt(self, proposals: Proposals, lengths: Lengths, *, allow_sync: bool = False) -> SelectionAttempt:
        """The release's selection."""
        return select_released(proposals, lengths, self.config.inference, allow_sync=allow_sync)

    def generate(self, stepper: WordStepper, state: State, events: int, *, allow_sync: bool = True) -> Beams:
        """Always `max_words` words; a beam, which the release has not, is the paper's."""
        if not is_greedy(self.config.inference):
            return super().generate(stepper, state, events, allow_sync=allow_sync)
        return greedy_released(stepper, state, events, self.config.inference.max_words)

    def detokenizer(self, vocabulary: Vocabulary) -> Callable[[Tensor], list[str]]:
        """All words, tidied as text."""
        if not is_greedy(self.config.inference):
            return super().detokenizer(vocabulary)
        return lambda words_PL: [vocabulary.decode_released(words) for words in words_PL.tolist()]


def behavior_of(config: Config) -> PaperBehavior:
    """The behavior that `model.compat` names."""
    return ReleasedBehavior(config) if config.model.compat == "released" else PaperBehavior(config)
