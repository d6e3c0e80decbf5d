"""The masked encoding of packed events: the numbers of `MaskedTransformer.focus`, in the least arithmetic.

What does not depend on the event is computed once per video: embedding, positions, and, because a mask m_t scales a
step and so commutes with a linear layer, the first layer's queries, keys and values, W (m_t x_t) = m_t (W x_t).
Of the later layers the three projections are one product.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from densevid.inference.fused import Fused
from densevid.inference.packed_events import PackedEvents
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

    def __call__(self, shared: SharedSteps, events: PackedEvents) -> Memory:
        """F-hat of every layer, P x S x D; what a slot of zeros holds is zero."""
        mask_PS1 = events.mask_PS[..., None].to(shared.rows[0].dtype)
        steps_PSD, projected_PSE = (self.fused.masked_rows(rows, events.row_PS, mask_PS1) for rows in shared.rows)
        attended = events.of(()).attended
        attended = None if attended is None else attended.to(steps_PSD.dtype)
        outputs: list[Tensor] = []
        for layer, projection_ED in zip(self.layers, self.projections, strict=True):
            if outputs:
                projected_PSE = F.linear(steps_PSD, projection_ED)
            steps_PSD = self._layer(layer, steps_PSD, projected_PSE, attended, mask_PS1)
            outputs.append(steps_PSD)
        return events.of(tuple(outputs))

    def _layer(
        self, layer: EncoderLayer, steps_PSD: Tensor, projected_PSE: Tensor, attended: Tensor | None, mask_PS1: Tensor
    ) -> Tensor:
        """V(F) of `EncoderLayer`, then the mask."""
        attention, fused = layer.attention, self.fused
        queries, keys, values = projected_PSE.unflatten(-1, (3, attention.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=attended, scale=attention.scale)
        context_PSD = attention.output(seen.transpose(1, 2).flatten(-2))
        gamma_PSD = fused.residual_norm(layer.attention_norm.norm, context_PSD, steps_PSD)
        hidden = fused.rectified(layer.feed_forward.expand, gamma_PSD)
        return fused.residual_norm(
            layer.feed_forward_norm.norm, layer.feed_forward.contract(hidden), gamma_PSD, mask_PS1
        )


class RecurrentEventEncoder:
    """A recurrent encoder's memory, the same for all events, under each one's mask."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def share(self, video: EncodedVideo) -> SharedSteps:
        """The encoded video; its layers are one and the same."""
        return SharedSteps(tuple(layer.flatten(0, 1).to(self.dtype) for layer in video.memory.layers))

    def __call__(self, shared: SharedSteps, events: PackedEvents) -> Memory:
        """Every layer times the mask."""
        mask_PS1 = events.mask_PS[..., None].to(self.dtype)
        return events.of(tuple(rows[events.row_PS] * mask_PS1 for rows in shared.rows))
