"""The masked encoding of packed events: the numbers of `MaskedTransformer.focus`, in the least arithmetic.

What does not depend on the event is computed once per video: embedding, positions, and, because a mask m_t scales a
step and so commutes with a linear layer, the first layer's queries, keys and values, W (m_t x_t) = m_t (W x_t).
Of the later layers the three projections are one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.kernels.fused import Fused
from densevid.kernels.packed_events import PackedEvents
from densevid.model.masked_transformer import EncodedVideo, MaskedTransformer
from densevid.model.recurrent import BiLSTMEncoder
from densevid.model.video_encoder import EncoderLayer, Memory


@dataclass(frozen=True)
class SharedSteps:
    """What all events of some videos share, one row per step of every video, the videos one after another."""

    rows: tuple[Tensor, ...]


class EventEncoder:
    """Encodes packed events with the self-attention encoder of a model, whose weights it puts side by side."""

    def __init__(self, model: MaskedTransformer, fused: Fused) -> None:
        assert not isinstance(model.encoder, BiLSTMEncoder)
        self.encoder, self.fused = model.encoder, fused
        self.layers: list[EncoderLayer] = list(model.encoder.layers)  # type: ignore[arg-type]
        parts = [(layer.attention.query, layer.attention.key, layer.attention.value) for layer in self.layers]
        self.projections = [torch.cat([part.weight for part in three]).detach() for three in parts]

    def share(self, video: EncodedVideo) -> SharedSteps:
        """Steps with their positions, and the first layer's queries, keys and values."""
        placed_NE = self.encoder.place(video.embedded_BTD).flatten(0, 1).to(self.projections[0].dtype)
        return SharedSteps((placed_NE, F.linear(placed_NE, self.projections[0])))

    def __call__(self, shared: SharedSteps, events: PackedEvents, out: Sequence[Tensor | None] | None = None) -> Memory:
        """F-hat of every layer, P x S x D, written to `out` where that is given; what a slot of zeros holds is zero."""
        mask_PS1 = events.mask_PS[..., None].to(shared.rows[0].dtype)
        steps_PSD, projected_PSE = (self.fused.masked_rows(rows, events.row_PS, mask_PS1) for rows in shared.rows)
        attended = events.of(()).attended
        attended = None if attended is None else attended.to(steps_PSD.dtype)
        outputs: list[Tensor] = []
        targets = out or [None] * len(self.layers)
        for layer, projection_ED, target in zip(self.layers, self.projections, targets, strict=True):
            if outputs:
                projected_PSE = F.linear(steps_PSD, projection_ED)
            steps_PSD = self._layer(layer, (steps_PSD, projected_PSE), attended, mask_PS1, target)
            outputs.append(steps_PSD)
        return events.of(tuple(outputs))

    def _layer(
        self,
        layer: EncoderLayer,
        steps: tuple[Tensor, Tensor],
        attended: Tensor | None,
        mask_PS1: Tensor,
        out: Tensor | None,
    ) -> Tensor:
        """V(F) of `EncoderLayer`, then the mask; `steps` are F and its queries, keys and values."""
        attention, fused, (steps_PSD, projected_PSE) = layer.attention, self.fused, steps
        seen_PSD = fused.self_attention(projected_PSE, attention.heads, attention.scale, attended)
        gamma_PSD = fused.residual_norm(layer.attention_norm.norm, attention.output(seen_PSD), steps_PSD)
        contracted = layer.feed_forward.contract(fused.linear_relu(layer.feed_forward.expand, gamma_PSD))
        return fused.residual_norm(layer.feed_forward_norm.norm, contracted, gamma_PSD, mask_PS1, out)


class RecurrentEventEncoder:
    """A recurrent encoder's memory, the same for all events, under each one's mask."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def share(self, video: EncodedVideo) -> SharedSteps:
        """The encoded video; its layers are one and the same."""
        return SharedSteps(tuple(layer.flatten(0, 1).to(self.dtype) for layer in video.memory.layers))

    def __call__(self, shared: SharedSteps, events: PackedEvents, out: Sequence[Tensor | None] | None = None) -> Memory:
        """Every layer times the mask."""
        mask_PS1 = events.mask_PS[..., None].to(self.dtype)
        layers = tuple(rows[events.row_PS] * mask_PS1 for rows in shared.rows)
        for layer, target in zip(layers, out or (), strict=False):
            assert target is not None
            target.copy_(layer)
        return events.of(layers)
