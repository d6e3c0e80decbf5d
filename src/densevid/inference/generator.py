"""Caption generation: events, given by their masks, become sentences; the second half of captioning.

Every event is encoded under its mask and captioned by the model's own decoder, in chunks that bound memory.
`densevid.kernels` registers faster forms (`FAST_GENERATORS`): they encode only the steps that a mask lets through and,
on a GPU, replay the work as CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from densevid.fast_forms import FastForm
from densevid.inference.compat import PaperBehavior
from densevid.inference.proposals import ProposalBatch, ProposalGenerator
from densevid.inference.search import Beams
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.priors import WordPrior
from densevid.progress import ProgressCallback, Stages, no_progress

LARGE_MEMORY = 40e9  # bytes; memories of 2^20 steps take four of them in the paper's configuration


@dataclass(frozen=True)
class GeneratorLimits:
    """What bounds memory: the steps of events that are encoded together, and of events that are captioned together."""

    encoded_steps: int
    decoded_steps: int

    @classmethod
    def of(cls, device: torch.device) -> GeneratorLimits:
        """What suits a device: large batches for a GPU, cache-sized ones for a CPU."""
        if device.type != "cuda":
            return cls(1 << 12, 1 << 16)
        large = torch.cuda.get_device_properties(device).total_memory > LARGE_MEMORY
        return cls(1 << 17, 1 << 20) if large else cls(1 << 15, 1 << 18)


class CaptionGenerator:
    """Generates the captions of events with the encoder and the decoder of a model as they are.

    Args:
        model: The network, in the precision that captions are computed in.
        behavior: How the paper or the release generates.
        limits: What bounds memory.
    """

    def __init__(self, model: MaskedTransformer, behavior: PaperBehavior, limits: GeneratorLimits) -> None:
        self.model, self.behavior, self.limits = model, behavior, limits
        self.dtype = model.caption_decoder.words.weight.dtype
        self.stages = Stages()

    def caption_proposals(
        self,
        found: ProposalBatch,
        video_P: Tensor,
        anchor_P: Tensor,
        masks: Callable[[], Tensor],
        on_progress: ProgressCallback = no_progress,
    ) -> Beams:
        """Caption selected proposals.

        Args:
            found: What `ProposalGenerator` made of their videos.
            video_P: The row of each event's video, in order.
            anchor_P: The anchor of each event.
            masks: Gives their event masks, P x T; a faster form may do without.
            on_progress: Receives the share that is done.

        Returns:
            The candidate sentences of every event.
        """
        return self(found.video, masks(), video_P, on_progress)

    def __call__(
        self, video: EncodedVideo, mask_PT: Tensor, video_P: Tensor, on_progress: ProgressCallback = no_progress
    ) -> Beams:
        """Caption events.

        Args:
            video: The videos, encoded together.
            mask_PT: The mask of each event.
            video_P: The row of each event's video, in order.
            on_progress: Receives the share that is done.

        Returns:
            The candidate sentences of every event.
        """
        events, steps = mask_PT.shape
        beams = Beams.empty(events, self.behavior.config.inference, mask_PT.device)
        valid_PT = video.memory.valid_BT[video_P]
        tags = self.model.tags(video, mask_PT * valid_PT, video_P)
        kept_PT = valid_PT & (mask_PT.abs() > self.behavior.mask_floor)
        mask_PT = torch.where(kept_PT, mask_PT, 0).to(self.dtype)
        video = self._in_own_precision(video)
        together = max(1, min(self.limits.encoded_steps, self.limits.decoded_steps) // max(1, steps))
        for event_P in torch.arange(events, device=mask_PT.device).split(together):
            if not len(event_P):
                break
            with self.stages("events"):
                own_tags = None if tags is None else tags.select(event_P)
                state = self.model.begin_caption(video.select(video_P[event_P]), mask_PT[event_P], own_tags)
            with self.stages("words"):
                beams.put(event_P, self.behavior.generate(self.model, state, len(event_P)))
            on_progress("sentences", (int(event_P[-1]) + 1) / events)
        return beams

    def _in_own_precision(self, video: EncodedVideo) -> EncodedVideo:
        layers = tuple(layer.to(self.dtype) for layer in video.memory.layers)
        return replace(
            video, embedded_BTD=video.embedded_BTD.to(self.dtype), memory=replace(video.memory, layers=layers)
        )


# (model, model in the precision of captions, behavior, limits, word prior) -> the two stages
BuildGenerators = Callable[
    [MaskedTransformer, MaskedTransformer, PaperBehavior, "GeneratorLimits | None", "WordPrior | None"],
    tuple[ProposalGenerator, CaptionGenerator],
]
FAST_GENERATORS: FastForm[BuildGenerators] = FastForm()


def build_generators(
    model: MaskedTransformer,
    caption_model: MaskedTransformer,
    behavior: PaperBehavior,
    limits: GeneratorLimits | None = None,
    word_prior: WordPrior | None = None,
) -> tuple[ProposalGenerator, CaptionGenerator]:
    """The two stages of captioning: in their fast forms where these are registered, else plain.

    Args:
        model: The network in float32, which proposes.
        caption_model: The same network in the precision that captions are computed in; or `model` itself.
        behavior: How the paper or the release selects and generates.
        limits: What bounds memory; by default what suits the device.
        word_prior: The model's word prior.

    Returns:
        What generates proposals, and what generates their captions.
    """
    if (build := FAST_GENERATORS.find()) is not None:
        return build(model, caption_model, behavior, limits, word_prior)
    proposals = ProposalGenerator(model, behavior, word_prior=word_prior)
    return proposals, CaptionGenerator(caption_model, behavior, limits or GeneratorLimits.of(model.device))
