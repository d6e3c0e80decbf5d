"""Random weights under the release's names, the shapes of a given `Settings`; its encoder stands in them twice."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reference.released_reference import Settings


def released_weights(settings: Settings, seed: int) -> dict[str, Tensor]:
    """A state_dict as the release would save it."""
    return _Maker(settings, seed).weights()


class _Maker:
    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.made = settings, dict[str, Tensor]()
        self.random = torch.Generator().manual_seed(seed)

    def weights(self) -> dict[str, Tensor]:
        settings, width = self.settings, self.settings.width
        if settings.mask != "discrete":
            self.matrix("mask_model.0", width, width + settings.window, bias=False)
            self.batch_norm("mask_model.1")
            self.matrix("mask_model.3", settings.window, width)
        for name, size in zip(("rgb_emb", "flow_emb"), settings.stream_widths, strict=True):
            self.matrix(name, width // 2, size)
        for layer in range(settings.layers):
            self.layer(f"vis_emb.encoder.layers.{layer}", "selfattn")
        for index, kernel in enumerate(settings.kernels):
            self.head(f"prop_out.{index}", kernel)
        for name in [name for name in self.made if name.startswith("vis_emb.")]:
            self.made[name.replace("vis_emb.", "cap_model.")] = self.made[name]
        for layer in range(settings.layers):
            self.layer(f"cap_model.decoder.layers.{layer}", "selfattn", "attention")
        self.matrix("cap_model.decoder.out", len(settings.words), width)
        return self.made

    def normal(self, *shape: int, spread: float) -> Tensor:
        return torch.randn(*shape, generator=self.random) * spread

    def matrix(self, name: str, rows: int, columns: int, *, bias: bool = True, gain: float = 1.0) -> None:
        self.made[f"{name}.weight"] = self.normal(rows, columns, spread=gain / math.sqrt(columns))
        if bias:
            self.made[f"{name}.bias"] = self.normal(rows, spread=0.3)

    def batch_norm(self, name: str) -> None:
        width = self.settings.width
        for part, mean, spread in (("weight", 1, 0.2), ("bias", 0, 0.2), ("running_mean", 0, 0.2)):
            self.made[f"{name}.{part}"] = mean + self.normal(width, spread=spread)
        self.made[f"{name}.running_var"] = 0.5 + torch.rand(width, generator=self.random)
        self.made[f"{name}.num_batches_tracked"] = torch.tensor(7)

    def layer(self, prefix: str, *attentions: str) -> None:
        width, hidden = self.settings.width, self.settings.hidden
        for part in (*attentions, "feedforward"):
            self.made[f"{prefix}.{part}.layernorm.gamma"] = 1 + self.normal(width, spread=0.1)
            self.made[f"{prefix}.{part}.layernorm.beta"] = self.normal(width, spread=0.1)
        for attention in attentions:
            for part in "qkvo":
                self.matrix(f"{prefix}.{attention}.layer.w{part}", width, width, bias=False, gain=1.5)
        self.matrix(f"{prefix}.feedforward.layer.linear1", hidden, width)
        self.matrix(f"{prefix}.feedforward.layer.linear2", width, hidden)

    def head(self, prefix: str, kernel: int) -> None:
        width = self.settings.width
        for place in (0, 2, 4, 6):
            self.batch_norm(f"{prefix}.{place}")
        self.made[f"{prefix}.1.weight"] = self.normal(width, 1, kernel, spread=1 / math.sqrt(kernel))
        self.made[f"{prefix}.3.weight"] = self.normal(width, width, 1, spread=1 / math.sqrt(width))
        self.made[f"{prefix}.7.weight"] = self.normal(4, width, 1, spread=0.6 / math.sqrt(width))
        self.made[f"{prefix}.7.bias"] = self.normal(4, spread=0.2)
        self.made[f"{prefix}.7.bias"][0] += self.settings.score_bias
