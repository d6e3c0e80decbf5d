"""The paper's figure: a video is encoded once, anchors become proposals, each proposal becomes an event mask, and the
encoder reads the video again through that mask so that the caption decoder sees the event and nothing else.

    embed -> encode -> propose -> event_mask -> focus -> caption
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from densevid.config import Config, ModelConfig
from densevid.model.anchors import AnchorGrid
from densevid.model.caption_decoder import DecodingState, SelfAttentionDecoder
from densevid.model.event_mask import DiscreteMask, EventMask, LearnedMask, inside, rounded_windows
from densevid.model.input_embedding import InputEmbedding
from densevid.model.proposal_decoder import PickedProposals, ProposalDecoder, Proposals
from densevid.model.rank_sums import rank_count
from densevid.model.recurrent import BiLSTMEncoder, LSTMDecoder, RecurrentState
from densevid.model.tags import Tagger, Tags
from densevid.model.video_encoder import Memory, SelfAttentionEncoder
from densevid.model.word_likelihood import WordLikelihood


@dataclass(frozen=True)
class EncodedVideo:
    """A batch of videos as the encoder leaves it: embedded once, encoded once without a mask.

    A model with tags keeps the features that these are predicted from.
    """

    embedded_BTD: Tensor
    memory: Memory
    features_BTF: Tensor | None = None

    def select(self, index_P: Tensor) -> EncodedVideo:
        """The videos in `index_P`, one row per proposal, without their features."""
        return EncodedVideo(self.embedded_BTD[index_P], self.memory.select(index_P))

    @property
    def lengths_B(self) -> Tensor:
        """Number of steps each video has."""
        return self.memory.valid_BT.sum(dim=1)


@dataclass(frozen=True)
class Predictions:
    """All that the losses need: every proposal, and for the captioned ones mask, masked memory and words."""

    proposals: Proposals
    event_mask: EventMask
    memory: Memory
    word_logits_PLV: Tensor


class MaskedTransformer(nn.Module):
    """The whole network. `config.model` picks each box: self-attention or recurrent; gated, learned or discrete."""

    def __init__(self, config: Config, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        model = config.model
        self.released = released = model.compat == "released"
        grid = self.anchor_grid(model)

        whole_steps = released or model.input_dropout_of == "steps"
        self.input_embedding = InputEmbedding(
            config.features.widths, model.width, model.input_dropout, context=model.input_context, released=whole_steps
        )
        self.encoder: SelfAttentionEncoder | BiLSTMEncoder
        if model.encoder == "bi-lstm":
            self.encoder = BiLSTMEncoder(model.layers, model.width, model.dropout)
        else:
            self.encoder = SelfAttentionEncoder(
                model.layers, model.width, model.hidden, model.heads, model.dropout, released=released
            )
        procnets = model.proposal_head == "procnets"
        self.proposal_decoder = ProposalDecoder(grid, model.width, procnets=procnets, released=released)
        self.masking: DiscreteMask | LearnedMask
        if model.mask == "discrete":
            self.masking = DiscreteMask()
        else:
            raw = released or model.mask_values == "logits"
            self.masking = LearnedMask(model.width, model.window, gated=model.mask == "gated", released=raw)
        self.caption_decoder: SelfAttentionDecoder | LSTMDecoder
        if model.decoder == "lstm":
            self.caption_decoder = LSTMDecoder(model.layers, model.width, vocabulary_size, model.dropout)
        else:
            self.caption_decoder = SelfAttentionDecoder(
                model.layers,
                model.width,
                model.hidden,
                model.heads,
                vocabulary_size,
                model.dropout,
                released=released,
                tag_streams=len(config.features.widths) if model.tags else 0,
                copy_tags=model.copy_tags,
            )
        self.tagger = Tagger(config.features.widths, model.tags) if model.tags else None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.caption_decoder.words.weight.device

    @staticmethod
    def anchor_grid(model: ModelConfig) -> AnchorGrid:
        """The anchors of a configuration; ProcNets slides every kernel by one."""
        return AnchorGrid.of(model.kernels, None if model.proposal_head == "procnets" else model.stride_factor)

    def seen(self, valid_BT: Tensor) -> Tensor:
        """The steps attention may look at: the video's own; the release looks at its zero padding, too."""
        return torch.ones_like(valid_BT) if self.released else valid_BT

    def encode(self, features_BTF: Tensor, valid_BT: Tensor, *, padded: bool = True) -> EncodedVideo:
        """Encode whole videos: F^0 ... F^L.

        Args:
            features_BTF: Features, zeros after the end of a video.
            valid_BT: Which steps attention may look at.
            padded: False promises that every step is valid.

        Returns:
            The embedded and the encoded videos.
        """
        embedded_BTD = self.input_embedding(features_BTF)
        kept = None if self.tagger is None else features_BTF
        return EncodedVideo(embedded_BTD, self.encoder(embedded_BTD, valid_BT, padded=padded), kept)

    def tags(
        self,
        video: EncodedVideo,
        event_mask_PT: Tensor,
        video_P: Tensor | None = None,
        given: tuple[Tensor, Tensor] | None = None,
    ) -> Tags | None:
        """The tags of events; None for a model without tags.

        Args:
            video: The videos, as `encode` returned them.
            event_mask_PT: The mask of each event.
            video_P: The video of each event; without it there is one event a video, in order.
            given: Labels of the last stream and their values, for events where it is absent (while training).
        """
        if self.tagger is None or not sum(self.tagger.classes):
            return None
        assert video.features_BTF is not None
        labels = self.tagger(video.features_BTF, event_mask_PT, video_P)
        return self.tagger.tags(labels if given is None else self.tagger.with_given(labels, *given))

    def propose(self, video: EncodedVideo) -> Proposals:
        """A score and an interval for every anchor."""
        memory = video.memory
        padded = memory.padded or rank_count() > 1  # ranks share statistics, so all of them go the same way
        masked = self.training and padded and not self.released and self.config.model.norm_padding == "masked"
        return self.proposal_decoder(memory.last_BTD, memory.valid_BT if masked else None)

    def event_mask(self, proposals: PickedProposals, steps: int, limit_P: Tensor) -> EventMask:
        """f_GM (or f_M, or the plain window) of picked proposals.

        Without `word_gradient` the mask that captions are read through is computed apart: the same numbers, but the
        caption loss does not reach the proposal, while the mask loss still does. The batch norms of the mask then count
        a batch twice.

        Args:
            proposals: P proposals.
            steps: How many steps the mask has.
            limit_P: The step at which each one's video ends.

        Returns:
            The mask, with what the mask loss needs.
        """
        model = self.config.model
        reached = proposals if model.mask_gradient else proposals.detach()
        event_mask = self.masking(reached, steps, limit_P)
        if model.word_gradient or not torch.is_grad_enabled():
            return event_mask
        return replace(event_mask, mask_PT=self.masking(proposals.detach(), steps, limit_P).mask_PT)

    @property
    def encodes_again(self) -> bool:
        """Whether an event is encoded anew under its mask; else the first encoding is masked."""
        return self.config.model.focus == "encode" and not isinstance(self.encoder, BiLSTMEncoder)

    def segment_mask(self, segments_P2: Tensor, steps: int, limit_P: Tensor) -> Tensor:
        """The mask of a given segment: P_e = 1 turns f_GM into its window."""
        return inside(rounded_windows(segments_P2, limit_P), steps)

    def focus(self, video: EncodedVideo, event_mask_PT: Tensor, tags: Tags | None = None) -> Memory:
        """F-hat: the video encoded again under its event mask, so nothing from outside the event is left in it.

        A recurrent encoder has its output masked instead.

        Args:
            video: One row per event.
            event_mask_PT: The mask of each event.
            tags: The tags of each event, which the decoder reads beside it.

        Returns:
            The memory that the caption decoder reads.
        """
        memory = video.memory
        if self.encodes_again:
            memory = self.encoder(video.embedded_BTD, memory.valid_BT, event_mask_PT, padded=memory.padded)
        else:
            memory = memory.masked(event_mask_PT)
        return replace(memory, tags=tags)

    def begin_caption(
        self, video: EncodedVideo, event_mask_PT: Tensor, tags: Tags | None = None
    ) -> DecodingState | RecurrentState:
        """Prepare the decoder to caption the event under the mask."""
        return self.caption_decoder.begin(self.focus(video, event_mask_PT, tags))

    def next_words(self, words_PL: Tensor, state: DecodingState | RecurrentState) -> Tensor:
        """Logits of the word that follows each of `words_PL`."""
        return self.caption_decoder(words_PL, state)

    def likelihood(
        self,
        words_PL: Tensor,
        state: DecodingState | RecurrentState,
        target_PL: Tensor,
        place_N: Tensor,
        left_out: int = 0,
    ) -> WordLikelihood:
        """The likelihood of the words that follow, at N of the flat places."""
        if isinstance(self.caption_decoder, SelfAttentionDecoder) and isinstance(state, DecodingState):
            return self.caption_decoder.likelihood(words_PL, state, target_PL, place_N, left_out)
        logits_NV = self.next_words(words_PL, state).flatten(0, 1)[place_N]
        return WordLikelihood.of_logits(logits_NV, target_PL.flatten()[place_N], left_out)

    def forward(
        self,
        features_BTF: Tensor,
        valid_BT: Tensor,
        anchor_P: Tensor,
        words_PL: Tensor,
        video_P: Tensor | None = None,
        *,
        padded: bool = True,
    ) -> Predictions:
        """Propose everywhere and caption the proposals of given anchors, with the true words as input.

        Args:
            features_BTF: Features, zeros after the end of a video.
            valid_BT: Which steps attention may look at.
            anchor_P: The anchors to caption.
            words_PL: The words before each one to predict.
            video_P: The row of each proposal's video; without it there is one proposal per video, in order.
            padded: False promises that every step is valid.

        Returns:
            All that the losses need.
        """
        video = self.encode(features_BTF, valid_BT, padded=padded)
        proposals = self.propose(video)
        row_P = torch.arange(len(anchor_P), device=anchor_P.device) if video_P is None else video_P
        shown = video if video_P is None else video.select(video_P)
        limit_P = self.window_limit(shown)
        event_mask = self.event_mask(proposals.pick(row_P, anchor_P), features_BTF.shape[1], limit_P)
        memory = self.focus(shown, event_mask.mask_PT, self.tags(video, event_mask.mask_PT, video_P))
        word_logits_PLV = self.next_words(words_PL, self.caption_decoder.begin(memory))
        return Predictions(proposals, event_mask, memory, word_logits_PLV)

    def window_limit(self, video: EncodedVideo) -> Tensor:
        """Where windows must end: at the end of the video; the release trains with the end of the padding."""
        if self.released:
            return torch.full_like(video.lengths_B, video.embedded_BTD.shape[1])
        return video.lengths_B
