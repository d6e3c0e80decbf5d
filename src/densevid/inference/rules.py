"""Where using a model differs between the paper and the release: what is read, which proposals stay, what is said.

`Captioner` asks one of these objects and knows nothing of the difference itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from densevid.config import Config
from densevid.data.vocabulary import Vocabulary
from densevid.inference.decoding import State, greedy_released, plain_greedy, sentences
from densevid.inference.selection import Selection, released_end, select, select_released
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.proposal_decoder import Proposals


@dataclass(frozen=True)
class PaperRules:
    """A video is read as long as it is, intervals end where it ends, and a sentence ends with `<eos>`."""

    config: Config

    def steps_read(self, steps: int) -> int:
        """How many steps the network reads for a video of `steps`, zeros after its own."""
        return steps

    def end(self, steps: int, seconds_per_step: float) -> float:
        """Where windows must end, in steps."""
        return steps

    def select(self, proposals: Proposals, steps: int, seconds_per_step: float) -> Selection:
        """The proposals of the only video of a batch that are captioned."""
        return select(proposals, 0, steps, self.config.inference)

    def sentences(self, model: MaskedTransformer, state: State, events: int, vocabulary: Vocabulary) -> list[str]:
        """What is said about each event: greedily, or by beam search where the settings ask for more."""
        words_PL = sentences(model, state, events, self.config.inference)
        return [vocabulary.decode(words) for words in words_PL.tolist()]


@dataclass(frozen=True)
class ReleasedRules(PaperRules):
    """The authors' code: zeros up to the window with a learned mask, its own end of a video, words that never stop."""

    def steps_read(self, steps: int) -> int:
        """The whole window with a learned mask, else the video's own steps."""
        return steps if self.config.model.mask == "discrete" else self.config.model.window

    def end(self, steps: int, seconds_per_step: float) -> float:
        """The release's mixed units, as far as steps were read."""
        return min(released_end(steps, seconds_per_step), self.steps_read(steps))

    def select(self, proposals: Proposals, steps: int, seconds_per_step: float) -> Selection:
        """The release's selection."""
        return select_released(proposals, 0, steps, self.config.inference, seconds_per_step)

    def sentences(self, model: MaskedTransformer, state: State, events: int, vocabulary: Vocabulary) -> list[str]:
        """Always `max_words` words, tidied as text; a beam, which the release has not, is the paper's."""
        if not plain_greedy(self.config.inference):
            return super().sentences(model, state, events, vocabulary)
        words_PL = greedy_released(model, state, events, self.config.inference.max_words)
        return [vocabulary.decode_released(words) for words in words_PL.tolist()]


def rules_of(config: Config) -> PaperRules:
    """The rules that `model.compat` names."""
    return ReleasedRules(config) if config.model.compat == "released" else PaperRules(config)
