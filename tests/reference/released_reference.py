"""The release's inference as plain loops in double precision, written from its description: what ours is held against.

Nothing here is shared with densevid: one video, one proposal, one word at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

SPECIAL = ["<unk>", "<pad>", "<init>", "<eos>"]


@dataclass(frozen=True)
class Settings:
    """A small model of the release's kind."""

    width: int = 32
    hidden: int = 40
    heads: int = 4
    layers: int = 2
    window: int = 40
    kernels: tuple[int, ...] = (1, 2, 5, 9)
    stride_factor: int = 3
    mask: str = "gated"
    stream_widths: tuple[int, int] = (12, 7)
    score_bias: float = 0.0
    words: list[str] = field(default_factory=lambda: [*SPECIAL, ".", "é", *(f"w{n}" for n in range(30))])

    def flags(self) -> list[str]:
        """As `--set` flags."""
        names = ("width", "hidden", "heads", "layers", "window", "stride_factor")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        settings = {**values, "kernels": list(self.kernels), "mask": f'"{self.mask}"'}
        return [part for key, value in settings.items() for part in ("--set", f"model.{key}={value}")]


@dataclass(frozen=True)
class ReleasedEvent:
    """One event as the release reports it, times in steps; `margin` is how near its nearest word was to another."""

    start: float
    end: float
    score: float
    sentence: str | None
    margin: float


def sinusoid(position: float, width: int) -> list[float]:
    return [
        math.sin(position / 10000 ** (i / width)) if i % 2 == 0 else math.cos(position / 10000 ** ((i - 1) / width))
        for i in range(width)
    ]


class ReleasedReference:
    """The release's forward pass over a state_dict under its own names."""

    def __init__(self, weights: dict[str, Tensor], settings: Settings) -> None:
        self.weights = {name: tensor.double() for name, tensor in weights.items()}
        self.settings = settings

    def events(
        self, resnet: np.ndarray, bn: np.ndarray, seconds_per_step: float, captioned: int
    ) -> list[ReleasedEvent]:
        """Everything the release would report for a video, in its order; only the first `captioned` have sentences."""
        embedded, frames = self.embed(resnet, bn)
        steps, limit = len(embedded), frames + 2 * seconds_per_step
        kept = self.propose(embedded, frames, limit)
        if not kept:
            sentence, margin = self.say(self.encode(embedded, torch.ones(steps).double()))
            return [ReleasedEvent(0, min(limit, steps), 0.7, sentence, margin)]
        events = []
        for index, (row, start, end, window) in enumerate(kept):
            mask = self.event_mask(row, start, end, window, steps)
            sentence = self.say(self.encode(embedded, mask)) if index < captioned else (None, math.inf)
            events.append(ReleasedEvent(*window, row[0], *sentence))
        return events

    def embed(self, resnet: np.ndarray, bn: np.ndarray) -> tuple[Tensor, int]:
        settings, w = self.settings, self.weights
        streams = [torch.from_numpy(values[: settings.window].astype(np.float64)) for values in (resnet, bn)]
        frames = len(streams[0])
        if settings.mask != "discrete":
            missing = settings.window - frames
            streams = [torch.cat((values, values.new_zeros(missing, values.shape[1]))) for values in streams]
        halves = [
            values @ w[f"{name}.weight"].T + w[f"{name}.bias"]
            for name, values in zip(("rgb_emb", "flow_emb"), streams, strict=True)
        ]
        return (torch.cat(halves, 1) * 0.9).relu(), frames

    def encode(self, embedded: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        steps, width = embedded.shape
        kept = torch.ones(steps, 1).double() if mask is None else mask[:, None]
        x = (embedded + torch.tensor([sinusoid(t, width) for t in range(steps)]).double()) * kept
        layers = []
        for layer in range(self.settings.layers):
            prefix = f"vis_emb.encoder.layers.{layer}"
            x = self.norm(f"{prefix}.selfattn", x + self.attend(f"{prefix}.selfattn", x, x))
            x = self.norm(f"{prefix}.feedforward", x + self.feed(prefix, x)) * kept
            layers.append(x)
        return layers

    def propose(self, embedded: Tensor, frames: int, limit: float) -> list[tuple[Any, float, float, tuple[int, int]]]:
        rows = self.anchor_rows(self.encode(embedded)[-1], frames)
        over = sum(row[0] > 0.7 for row in rows)
        kept: list[tuple[Any, float, float, tuple[int, int]]] = []
        for row in sorted(rows, key=lambda row: -row[0])[: max(over, 200)]:
            _, log_length, shift, center, kernel = row
            middle, length = center + shift * kernel, kernel * math.exp(log_length)
            start, end = middle - length / 2, middle + length / 2
            if start >= end or start < 0 or end >= limit:
                continue
            if any(_iou((start, end), window) > 0.9 for *_, window in kept):
                continue
            last = min(limit, len(embedded))
            window = math.floor(max(min(start, last - 1), 0)), math.ceil(max(min(end, last), 1))
            kept.append((row, start, end, window))
        return kept[:500]

    def anchor_rows(self, memory: Tensor, frames: int) -> list[tuple[float, float, float, float, int]]:
        """Score, log length, center shift, anchor center and length of every anchor."""
        w, rows = self.weights, []
        for index, kernel in enumerate(self.settings.kernels):
            if kernel > frames:
                continue
            prefix, stride = f"prop_out.{index}", math.ceil(kernel / self.settings.stride_factor)
            x = self.batch_norm(f"{prefix}.0", memory.T)
            windows = x.unfold(1, kernel, stride)  # channels x anchors x kernel
            x = self.batch_norm(f"{prefix}.2", (windows * w[f"{prefix}.1.weight"]).sum(-1))
            x = self.batch_norm(f"{prefix}.4", w[f"{prefix}.3.weight"][:, :, 0] @ x).relu()
            output = (
                w[f"{prefix}.7.weight"][:, :, 0] @ self.batch_norm(f"{prefix}.6", x) + w[f"{prefix}.7.bias"][:, None]
            )
            for place, (logit, _, log_length, shift) in enumerate(output.T.tolist()):
                rows.append((1 / (1 + math.exp(-logit)), log_length, shift, kernel / 2 + place * stride, kernel))
        return rows

    def event_mask(self, row: Any, start: float, end: float, window: tuple[int, int], steps: int) -> Tensor:
        w, (score, _, _, center, kernel) = self.weights, row
        inside = torch.tensor([float(window[0] <= t < window[1]) for t in range(steps)]).double()
        if self.settings.mask == "discrete":
            return inside
        first, last = max(0, math.floor(center - kernel / 2)), min(steps, math.ceil(center + kernel / 2))
        borders = [value for place in (start, end, first, last) for value in sinusoid(place, self.settings.width // 4)]
        anchor = [float(first <= t < last) for t in range(steps)]
        hidden = (w["mask_model.0.weight"] @ torch.tensor(borders + anchor).double())[:, None]
        hidden = self.batch_norm("mask_model.1", hidden)[:, 0].relu()
        raw = w["mask_model.3.weight"] @ hidden + w["mask_model.3.bias"]
        return raw if self.settings.mask == "learned" else score * inside + (1 - score) * raw

    def say(self, memory: list[Tensor]) -> tuple[str, float]:
        w, words, ids, margin = self.weights, self.settings.words, [2], math.inf
        embedding, width = w["cap_model.decoder.out.weight"], self.settings.width
        for _ in range(20):
            x = embedding[ids] * math.sqrt(width)
            x = x + torch.tensor([sinusoid(t, width) for t in range(len(ids))]).double()
            for layer in range(self.settings.layers):
                prefix = f"cap_model.decoder.layers.{layer}"
                x = self.norm(f"{prefix}.selfattn", x + self.attend(f"{prefix}.selfattn", x, x, causal=True))
                x = self.norm(f"{prefix}.attention", x + self.attend(f"{prefix}.attention", x, memory[layer]))
                x = self.norm(f"{prefix}.feedforward", x + self.feed(prefix, x))
            logits = embedding @ x[-1] + w["cap_model.decoder.out.bias"]
            best = logits.topk(2)
            margin = min(margin, float(best.values[0] - best.values[1]))
            ids.append(int(best.indices[0]))
        text = " ".join(words[number] for number in ids[1:])
        for deleted in (" <eos>", " <pad>", " ."):
            text = text.replace(deleted, "")
        return text, margin

    def attend(self, name: str, queries: Tensor, memory: Tensor, *, causal: bool = False) -> Tensor:
        w, width = self.weights, self.settings.width
        q, k, v = (
            x @ w[f"{name}.layer.w{part}.weight"].T for part, x in zip("qkv", (queries, memory, memory), strict=True)
        )
        size, heads = width // self.settings.heads, []
        for head in range(self.settings.heads):
            part = slice(head * size, (head + 1) * size)
            logits = q[:, part] @ k[:, part].T / math.sqrt(width)
            if causal:
                logits = logits.masked_fill(torch.ones_like(logits).triu(1) > 0, -math.inf)
            heads.append(logits.softmax(-1) @ v[:, part])
        return torch.cat(heads, 1) @ w[f"{name}.layer.wo.weight"].T

    def feed(self, prefix: str, x: Tensor) -> Tensor:
        first, second = (f"{prefix}.feedforward.layer.linear{n}" for n in (1, 2))
        w = self.weights
        return (x @ w[f"{first}.weight"].T + w[f"{first}.bias"]).relu() @ w[f"{second}.weight"].T + w[f"{second}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        gain, shift = self.weights[f"{name}.layernorm.gamma"], self.weights[f"{name}.layernorm.beta"]
        return gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + shift

    def batch_norm(self, name: str, x: Tensor) -> Tensor:
        """Of channels x steps, with the statistics that training left."""
        mean, variance, gain, shift = (
            self.weights[f"{name}.{part}"][:, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (variance + 1e-5).sqrt() * gain + shift


def _iou(first: tuple[float, float], second: tuple[float, float]) -> float:
    shared = max(0.0, min(first[1], second[1]) - max(first[0], second[0]))
    return shared / (first[1] - first[0] + second[1] - second[0] - shared)
