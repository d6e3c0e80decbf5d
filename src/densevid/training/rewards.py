"""Reward fine-tuning (self-critical: Rennie et al., 2017): captions learn from a score in place of the true words.

Sentences that score better than the model's own greedy one become more likely, those that score worse less so. The
gradient of the expected reward is E[(r(sampled) - r(greedy)) grad log p(sampled)], so the loss to minimise is
-(r(sampled) - r(greedy)) log p(sampled). Words are sampled without gradients, one after another; then one parallel pass
gives their log-probabilities. The decoder's own dropout is off meanwhile, so both see the same network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from densevid.config import Config
from densevid.data.batches import Batch
from densevid.data.dataset import SegmentDataset
from densevid.data.vocabulary import EOS, INIT, PAD, SPECIAL_TOKENS, Vocabulary, tokenize
from densevid.errors import InputError
from densevid.inference.search import greedy
from densevid.model.caption_decoder import DecodingState
from densevid.model.masked_transformer import MaskedTransformer
from densevid.model.recurrent import RecurrentState
from densevid.model.video_encoder import Memory
from densevid.model.word_likelihood import counted_places
from densevid.timelines.dataset import TimelineDataset
from densevid.training.distributed import share_of_count
from densevid.training.sentence_scores import Cider, WordMatches, Words

Scorer = Callable[[Sequence[Words], Sequence[int]], npt.NDArray[np.float64]]
NOT_GENERATED = 3  # the first words: <unk>, <pad>, <init>
END = SPECIAL_TOKENS[EOS]
MATCHES_WEIGHT = 8.0  # beside CIDEr; of 0, 4 and 8 the best METEOR on the development tenth of MSVD


class Reward:
    """Scores generated words against the true sentences of their segment.

    A sentence that ends has `END` as its last word: without it, CIDEr rewards sentences that break off ("a man in a").

    Args:
        score: Scores sentences against documents, as `SentenceScorer.scores`.
        documents: Gives the document of each row of a batch.
        vocabulary: The words of the ids.
        max_words: The length of sampled sentences.
        samples: Sentences that are sampled for each event; one is compared with the greedy sentence, several with the
            mean of the others.
    """

    def __init__(
        self,
        score: Scorer,
        documents: Callable[[Batch], list[int]],
        vocabulary: Vocabulary,
        max_words: int,
        samples: int = 1,
    ) -> None:
        self.score, self.documents, self.vocabulary, self.max_words = score, documents, vocabulary, max_words
        self.samples = samples

    def __call__(self, words_PL: Tensor, document_P: Sequence[int]) -> Tensor:
        """The reward of each sentence."""
        scores = self.score([self._words(row) for row in words_PL.tolist()], document_P)
        return torch.from_numpy(scores).float().to(words_PL.device)

    def _words(self, ids: list[int]) -> Words:
        ends = EOS in ids
        ids = ids[: ids.index(EOS)] if ends else ids
        words = (self.vocabulary.tokens[number] for number in ids if number >= len(SPECIAL_TOKENS))
        return (*words, END) if ends else tuple(words)


def reward_for(config: Config, dataset: SegmentDataset | TimelineDataset, vocabulary: Vocabulary) -> Reward | None:
    """The reward of `training.reward`, with the training sentences as references; None without one.

    Raises:
        InputError: The reward cannot be used with the other settings or the data.
    """
    if config.training.reward == "none":
        return None
    if config.model.compat == "released":
        raise InputError('training.reward needs sentences that end; it does not work with model.compat = "released"')
    if isinstance(dataset, TimelineDataset):
        return _clip_reward(config, dataset, vocabulary)
    documents, document_N = documents_of(dataset)

    def rows_of(batch: Batch) -> list[int]:
        return list(document_N[batch.sample_P.cpu().numpy()].tolist())

    return Reward(_scorer(config.training.reward, documents), rows_of, vocabulary, config.training.max_words)


def _scorer(reward: str, documents: Sequence[Sequence[Words]]) -> Scorer:
    """`cider+matches` balances CIDEr, which favors few safe words, with METEOR's formula, which favors many."""
    if reward == "meteor":
        return _without_end(_meteor(documents))
    cider = Cider([[(*words, END) for words in document] for document in documents])
    if reward == "cider":
        return cider.scores
    matches = _without_end(WordMatches(documents).scores)
    return lambda words, numbers: cider.scores(words, numbers) + MATCHES_WEIGHT * matches(words, numbers)


def _without_end(score: Scorer) -> Scorer:
    return lambda sentences, numbers: score(
        [words[: words.index(END)] if END in words else words for words in sentences], numbers
    )


def _clip_reward(config: Config, dataset: TimelineDataset, vocabulary: Vocabulary) -> Reward:
    """With timelines only the clips beside them are rewarded; each is a document among those of its collection."""
    if not dataset.clips_per_batch:
        raise InputError("training.reward is for the clips beside the timelines: set training.clips_per_batch")
    mixture, number_of, scorers, firsts = dataset.mixture, dict[tuple[int, str], int](), list[Scorer](), list[int]()
    for style, (_, clips) in zip(mixture.styles, mixture.parts, strict=True):
        start, first = INIT if style is None else vocabulary.styles[style], len(number_of)
        number_of |= {(start, clip.name): first + place for place, clip in enumerate(clips)}
        documents: list[Sequence[Words]] = [[tuple(tokenize(text)) for text in clip.captions] for clip in clips]
        scorers.append(_scorer(config.training.reward, documents))
        firsts.append(first)

    def score(sentences: Sequence[Words], numbers: Sequence[int]) -> npt.NDArray[np.float64]:
        number_S, score_S = np.asarray(numbers), np.zeros(len(numbers))
        part_S = np.searchsorted(firsts, number_S, side="right") - 1
        for part in np.unique(part_S).tolist():
            own = np.flatnonzero(part_S == part).tolist()
            score_S[own] = scorers[part]([sentences[row] for row in own], (number_S[own] - firsts[part]).tolist())
        return score_S

    def documents_of_batch(batch: Batch) -> list[int]:
        pairs = zip(first_words(batch, len(batch.videos)).tolist(), batch.videos, strict=True)
        return [number_of[start, video] for start, video in pairs]

    return Reward(score, documents_of_batch, vocabulary, config.training.max_words, config.training.sentences_per_clip)


def documents_of(dataset: SegmentDataset) -> tuple[list[list[Words]], npt.NDArray[np.int64]]:
    """The documents of a dataset, and that of each segment: segments of a video with the same times share one."""
    times_N2 = dataset.segments_N2.double().numpy().round(3)
    _, document_N = np.unique(np.column_stack([dataset.video_N, times_N2]), axis=0, return_inverse=True)
    document_N = document_N.reshape(-1)
    documents: list[list[Words]] = [[] for _ in range(int(document_N.max()) + 1)]
    for number, event in zip(document_N.tolist(), dataset.events, strict=True):
        documents[number].append(tuple(tokenize(event.sentence)))
    return documents, document_N


def _meteor(documents: Sequence[Sequence[Words]]) -> Scorer:
    """METEOR of each sentence, by the project's evaluator where it is installed."""
    try:
        from densevid.evaluation.meteor import scorer, statistics
    except ImportError as error:
        raise InputError(f"METEOR is not available here ({error}); use training.reward = 'cider'") from error
    engine = scorer.MeteorScorer(cache=False)
    texts = [tuple(" ".join(words) for words in document) for document in documents]

    def score(sentences: Sequence[Words], numbers: Sequence[int]) -> npt.NDArray[np.float64]:
        pairs = [(" ".join(words), texts[number]) for words, number in zip(sentences, numbers, strict=True)]
        return np.asarray(statistics.segment_scores(engine.statistics(pairs)), dtype=np.float64)

    return score


def reward_loss(model: MaskedTransformer, parts: Sequence[tuple[Memory, Batch, Tensor]], reward: Reward) -> Tensor:
    """-(r(sampled) - r(others)) log p(sampled), averaged over the sampled words.

    The others are the greedy sentence, or where K > 1 are sampled, the K - 1 other samples of the event.

    Args:
        model: The model; its caption decoder is in evaluation mode meanwhile.
        parts: What the decoder reads of events, the batch of these events, for their references, and which of them
            count.
        reward: Scores the sentences.
    """
    decoder, training = model.caption_decoder, model.caption_decoder.training
    decoder.eval()
    try:
        losses = [_sampled_losses(model, memory, batch, present_P, reward) for memory, batch, present_P in parts]
    finally:
        decoder.train(training)
    loss_NL, counted_NL = (torch.cat(column) for column in zip(*losses, strict=True))
    return loss_NL.sum() / share_of_count(counted_NL.sum())


def _sampled_losses(
    model: MaskedTransformer, memory: Memory, batch: Batch, present_P: Tensor, reward: Reward
) -> tuple[Tensor, Tensor]:
    """The loss of every sampled word, and which of them count."""
    samples = reward.samples
    start_N = first_words(batch, len(present_P)).repeat_interleave(samples)
    document_N = [document for document in reward.documents(batch) for _ in range(samples)]
    with torch.no_grad():
        sampled_NL = sample_words(model, _begin(model, memory, samples), start_N, reward.max_words)
        reward_N = reward(sampled_NL, document_N)
        if samples == 1:
            state = model.caption_decoder.begin(memory)
            greedy_NL = greedy(model, state, len(present_P), reward.max_words).words_PKL[:, 0]
            advantage_N = reward_N - reward(greedy_NL, document_N)
        else:
            of_event_PK = reward_N.view(-1, samples)
            advantage_N = ((of_event_PK - of_event_PK.mean(dim=1, keepdim=True)) * samples / (samples - 1)).flatten()
    counted_NL = (sampled_NL != PAD) & present_P.repeat_interleave(samples)[:, None]
    log_p_NL = log_probabilities(model, _begin(model, memory, samples), start_N, sampled_NL)
    return torch.where(counted_NL, -advantage_N[:, None] * log_p_NL, 0), counted_NL


def first_words(batch: Batch, events: int) -> Tensor:
    """What the sentences of each event begin with: `<init>`, or the style token of a clip's collection."""
    start_N = batch.words_PL[:, 0]
    if len(start_N) == events or batch.video_P is None:
        return start_N
    return start_N.new_full((events,), INIT).scatter(0, batch.video_P, start_N)


def _begin(model: MaskedTransformer, memory: Memory, samples: int) -> DecodingState | RecurrentState:
    state = model.caption_decoder.begin(memory)
    state.branch(samples)
    return state


def sample_words(
    model: MaskedTransformer, state: DecodingState | RecurrentState, start_N: Tensor, max_words: int
) -> Tensor:
    """Words drawn from the model's own distribution, N x L; a sentence ends with `<eos>` and is padded from there."""
    word_N, finished_N = start_N, torch.zeros_like(start_N, dtype=torch.bool)
    words = []
    for _ in range(max_words):
        logits_NV = _allowed(model.next_words(word_N[:, None], state)[:, -1])
        drawn_N = torch.multinomial(logits_NV.softmax(dim=-1), 1).squeeze(1)
        word_N = torch.where(finished_N, PAD, drawn_N)
        finished_N = finished_N | (word_N == EOS)
        words.append(word_N)
    return torch.stack(words, dim=1)


def log_probabilities(
    model: MaskedTransformer, state: DecodingState | RecurrentState, start_N: Tensor, words_NL: Tensor
) -> Tensor:
    """The log-probability of each word after those before it, under the distribution that `sample_words` draws from.

    Padding has 0.
    """
    before_NL = torch.cat((start_N[:, None], words_NL[:, :-1]), dim=1)
    place_M = counted_places(words_NL != PAD)
    target_NL = torch.where(words_NL == PAD, EOS, words_NL)  # on a GPU all places are computed
    log_p_M = model.likelihood(before_NL, state, target_NL, place_M, NOT_GENERATED).log_p_of_the_rest_N
    log_p_NL = log_p_M.new_zeros(words_NL.numel()).index_put((place_M,), log_p_M).view_as(words_NL)
    return torch.where(words_NL == PAD, 0, log_p_NL)


def _allowed(logits: Tensor) -> Tensor:
    """Logits in which special tokens but `<eos>` have no chance."""
    masked = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    masked[:NOT_GENERATED] = True
    return logits.float().masked_fill(masked, -torch.inf)
