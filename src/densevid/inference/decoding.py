"""Words, one after another, for many events at once; keys and values of earlier words are kept in the state."""

from __future__ import annotations

import torch
from torch import Tensor

from densevid.model.caption_decoder import DecodingState
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.recurrent import RecurrentState

UNKNOWN, PAD, BEGIN, END = 0, 1, 2, 3


def greedy(model: MaskedTransformer, state: DecodingState | RecurrentState, events: int, max_words: int) -> Tensor:
    """The most likely word at each position, P x L; a sentence ends with `<eos>` and is padded from there.

    `<unk>`, `<pad>` and `<init>` are never chosen. The release chooses among all words and never stops early.
    """
    device = model.caption_decoder.words.weight.device
    word_P = torch.full((events,), BEGIN, device=device)
    finished_P = torch.zeros(events, dtype=torch.bool, device=device)
    words: list[Tensor] = []
    for _ in range(max_words):
        logits_PV = model.next_words(word_P[:, None], state)[:, -1]
        if not model.released:
            logits_PV[:, [UNKNOWN, PAD, BEGIN]] = -torch.inf
        word_P = logits_PV.argmax(dim=-1)
        if not model.released:
            word_P = torch.where(finished_P, PAD, word_P)
            finished_P |= word_P == END
        words.append(word_P)
        if bool(finished_P.all()):
            break
    return torch.stack(words, dim=1)
