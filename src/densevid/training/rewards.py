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
from densevid.timelines.dataset import TimelineDataset
from densevid.training.distributed import share_of_count
from densevid.training.sentence_scores import Cider, WordMatches, Words

Scorer = Callable[[Sequence[Words], Sequence[int]], npt.NDArray[np.float64]]
NOT_GENERATED = [0, 1, 2]  # <unk>, <pad>, <init>
MATCHES_WEIGHT = 8.0  # beside CIDEr; of 0, 4 and 8 the best METEOR on the development tenth of MSVD


class Reward:
    """Scores generated words against the true sentences of their segment.

    Args:
        score: Scores sentences against documents, as `SentenceScorer.scores`.
        documents: Gives the document of each row of a batch.
        vocabulary: The words of the ids.
        max_words: The length of sampled sentences.
    """

    def __init__(
        self, score: Scorer, documents: Callable[[Batch], list[int]], vocabulary: Vocabulary, max_words: int
    ) -> None:
        self.score, self.documents, self.vocabulary, self.max_words = score, documents, vocabulary, max_words

    def __call__(self, words_PL: Tensor, document_P: Sequence[int]) -> Tensor:
        """The reward of each sentence."""
        scores = self.score([self._words(row) for row in words_PL.tolist()], document_P)
        return torch.from_numpy(scores).float().to(words_PL.device)

    def _words(self, ids: list[int]) -> Words:
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return tuple(self.vocabulary.tokens[number] for number in ids if number >= len(SPECIAL_TOKENS))


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
        documents, rows_of = _clip_documents(dataset)
    else:
        documents, document_N = documents_of(dataset)

        def rows_of(batch: Batch) -> list[int]:
            return list(document_N[batch.sample_P.cpu().numpy()].tolist())

    return Reward(_scorer(config.training.reward, documents), rows_of, vocabulary, config.training.max_words)


def _scorer(reward: str, documents: Sequence[Sequence[Words]]) -> Scorer:
    """`cider+matches` balances CIDEr, which favors few safe words, with METEOR's formula, which favors many."""
    if reward == "meteor":
        return _meteor(documents)
    cider, matches = Cider(documents), WordMatches(documents)
    if reward == "cider":
        return cider.scores
    return lambda words, numbers: cider.scores(words, numbers) + MATCHES_WEIGHT * matches.scores(words, numbers)


def _clip_documents(dataset: TimelineDataset) -> tuple[list[list[Words]], Callable[[Batch], list[int]]]:
    """With timelines only the clips beside them are rewarded; each clip is a document."""
    if not dataset.clips_per_batch:
        raise InputError("training.reward is for the clips beside the timelines: set training.clips_per_batch")
    row = {clip.name: number for number, clip in enumerate(dataset.caption_clips)}
    documents = [[tuple(tokenize(caption)) for caption in clip.captions] for clip in dataset.caption_clips]
    return documents, lambda batch: [row[video] for video in batch.videos]


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


def reward_loss(model: MaskedTransformer, memory: Memory, batch: Batch, present_P: Tensor, reward: Reward) -> Tensor:
    """-(r(sampled) - r(greedy)) log p(sampled), averaged over the sampled words.

    Args:
        model: The model; its caption decoder is in evaluation mode meanwhile.
        memory: What the decoder reads of each of P events.
        batch: The batch of these events, for their references.
        present_P: Which events count.
        reward: Scores the sentences.
    """
    decoder, training = model.caption_decoder, model.caption_decoder.training
    decoder.eval()
    try:
        with torch.no_grad():
            sampled_PL = sample_words(model, decoder.begin(memory), len(present_P), reward.max_words)
            greedy_PL = greedy(model, decoder.begin(memory), len(present_P), reward.max_words).words_PKL[:, 0]
        document_P = reward.documents(batch)
        advantage_P = reward(sampled_PL, document_P) - reward(greedy_PL, document_P)
        log_p_PL = log_probabilities(model, decoder.begin(memory), sampled_PL)
    finally:
        decoder.train(training)
    counted_PL = (sampled_PL != PAD) & present_P[:, None]
    loss_PL = torch.where(counted_PL, -advantage_P[:, None] * log_p_PL, 0)
    return loss_PL.sum() / share_of_count(counted_PL.sum())


def sample_words(
    model: MaskedTransformer, state: DecodingState | RecurrentState, events: int, max_words: int
) -> Tensor:
    """Words drawn from the model's own distribution, P x L; a sentence ends with `<eos>` and is padded from there."""
    device = model.caption_decoder.words.weight.device
    word_P = torch.full((events,), INIT, device=device)
    finished_P = torch.zeros(events, dtype=torch.bool, device=device)
    words = []
    for _ in range(max_words):
        logits_PV = _allowed(model.next_words(word_P[:, None], state)[:, -1])
        drawn_P = torch.multinomial(logits_PV.softmax(dim=-1), 1).squeeze(1)
        word_P = torch.where(finished_P, PAD, drawn_P)
        finished_P |= word_P == EOS
        words.append(word_P)
    return torch.stack(words, dim=1)


def log_probabilities(model: MaskedTransformer, state: DecodingState | RecurrentState, words_PL: Tensor) -> Tensor:
    """The log-probability of each word after those before it, under the distribution that `sample_words` draws from."""
    before_PL = torch.cat((torch.full_like(words_PL[:, :1], INIT), words_PL[:, :-1]), dim=1)
    log_p_PLV = _allowed(model.next_words(before_PL, state)).log_softmax(dim=-1)
    word_PL = torch.where(words_PL == PAD, EOS, words_PL)  # padding is not counted, but 0 x -inf would be NaN
    return log_p_PLV.gather(2, word_PL[..., None]).squeeze(2)


def _allowed(logits: Tensor) -> Tensor:
    """Logits in which special tokens but `<eos>` have no chance."""
    masked = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    masked[NOT_GENERATED] = True
    return logits.float().masked_fill(masked, -torch.inf)
