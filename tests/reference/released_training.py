"""The release's forward pass while training, written from its description: what ours is held against in training mode.

Nothing here is shared with densevid. The masks of dropout come from outside, one for each place in the order of the
computation; gradients are those of autograd through these plain formulas, in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from reference.released_reference import Settings, sinusoid

Draw = Callable[[tuple[int, ...], float], Tensor]  # shape, probability of dropping -> what is kept, as 0 and 1


@dataclass(frozen=True)
class Sample:
    """A batch as the release trains on it: one segment of each video, features padded with zeros to the window."""

    resnet: Tensor  # video x step x channel
    bn: Tensor
    positive: Tensor  # video x 10, numbers of anchors; the first is captioned
    targets: Tensor  # video x 10 x 2: log length, center
    negative: Tensor
    words: Tensor  # video x word, from <init> to <eos>, then <pad>


@dataclass(frozen=True)
class Trained:
    """What a forward pass gives: every anchor's row, the masked encoding, words, losses before their weights."""

    rows: Tensor  # video x 4 x anchor
    mask: Tensor
    encoded: list[Tensor]
    word_logits: Tensor
    score_loss: Tensor
    offset_loss: Tensor
    mask_loss: Tensor
    word_loss: Tensor

    @property
    def total(self) -> Tensor:
        """With the release's weights."""
        return self.score_loss + 10 * self.offset_loss + self.mask_loss + 0.25 * self.word_loss


class ReleasedTraining:
    """One forward pass over a state_dict under the release's names; `moved` are the running statistics after it."""

    def __init__(
        self, weights: dict[str, Tensor], settings: Settings, draw: Draw, *, dropout: float = 0.2, embedded: float = 0.1
    ) -> None:
        copies = {name: tensor.double() for name, tensor in weights.items() if "cap_model.encoder" not in name}
        learned = {name for name in copies if "running" not in name and "num_batches" not in name}
        self.weights = {name: tensor.requires_grad_(name in learned) for name, tensor in copies.items()}
        self.settings, self.draw = settings, draw
        self.dropped, self.embedded_dropped = dropout, embedded
        self.moved: dict[str, Tensor] = {}

    def gradients(self) -> dict[str, Tensor]:
        """Of every weight; zeros where none has come."""
        learned = {name: weight for name, weight in self.weights.items() if weight.requires_grad}
        return {name: torch.zeros_like(w) if w.grad is None else w.grad for name, w in learned.items()}

    def forward(self, sample: Sample) -> Trained:
        embedded = self.embed(sample)
        rows, anchors = self.anchor_rows(self.encode(embedded, None)[-1])
        captioned = sample.positive[:, 0]
        mask, mask_loss = self.event_mask(rows, anchors, captioned)
        encoded = self.encode(embedded, mask)
        words = self.decode(sample.words[:, :-1], encoded)

        positive = torch.stack([rows[video, :, chosen] for video, chosen in enumerate(sample.positive)])
        negative = torch.stack([rows[video, :, chosen] for video, chosen in enumerate(sample.negative)])
        off = positive[:, 2:].transpose(1, 2) - sample.targets
        smooth = torch.where(off.abs() < 1, off.square() / 2, off.abs() - 0.5)
        sure = torch.cat((-positive[:, 0], negative[:, 0]), 1)  # BCE is softplus of the logit of the wrong answer
        chances, target = words.log_softmax(-1), sample.words[:, 1:]
        losses = [
            -chances[video, place, target[video, place]]
            for video in range(len(target))
            for place in range(target.shape[1])
            if target[video, place] != 1
        ]
        score_loss = (1 + sure.exp()).log().mean()
        return Trained(rows, mask, encoded, words, score_loss, smooth.mean(), mask_loss, torch.stack(losses).mean())

    def embed(self, sample: Sample) -> Tensor:
        w = self.weights
        halves = [
            values.double() @ w[f"{name}.weight"].T + w[f"{name}.bias"]
            for name, values in (("rgb_emb", sample.resnet), ("flow_emb", sample.bn))
        ]
        together = torch.cat(halves, 2)
        return (together * self.draw((*together.shape[:2], 1), self.embedded_dropped)).relu()

    def drop(self, x: Tensor) -> Tensor:
        return x * self.draw(tuple(x.shape), self.dropped) / (1 - self.dropped)

    def encode(self, embedded: Tensor, mask: Tensor | None) -> list[Tensor]:
        x = self.drop(embedded + self.positions(embedded.shape[1]))
        kept = torch.ones_like(x[..., :1]) if mask is None else mask[..., None]
        x, layers = x * kept, []
        for layer in range(self.settings.layers):
            prefix = f"vis_emb.encoder.layers.{layer}"
            x = self.norm(f"{prefix}.selfattn", x + self.drop(self.attend(f"{prefix}.selfattn", x, x)))
            x = self.norm(f"{prefix}.feedforward", x + self.drop(self.feed(prefix, x))) * kept
            layers.append(x)
        return layers

    def positions(self, steps: int) -> Tensor:
        return torch.tensor([sinusoid(step, self.settings.width) for step in range(steps)]).double()

    def anchor_rows(self, memory: Tensor) -> tuple[Tensor, list[tuple[float, int]]]:
        """Score, overlap, log length and center of every anchor, and the anchors' centers and lengths."""
        w, rows, anchors = self.weights, [], []
        for index, kernel in enumerate(self.settings.kernels):
            prefix, stride = f"prop_out.{index}", math.ceil(kernel / self.settings.stride_factor)
            x = self.batch_norm(f"{prefix}.0", memory.transpose(1, 2))
            x = (x.unfold(2, kernel, stride) * w[f"{prefix}.1.weight"]).sum(-1)
            x = w[f"{prefix}.3.weight"][:, :, 0] @ self.batch_norm(f"{prefix}.2", x)
            x = self.batch_norm(f"{prefix}.6", self.batch_norm(f"{prefix}.4", x).relu())
            rows.append(w[f"{prefix}.7.weight"][:, :, 0] @ x + w[f"{prefix}.7.bias"][:, None])
            anchors += [(kernel / 2 + place * stride, kernel) for place in range(x.shape[2])]
        return torch.cat(rows, 2), anchors

    def event_mask(self, rows: Tensor, anchors: list[tuple[float, int]], captioned: Tensor) -> tuple[Tensor, Tensor]:
        w, window, inputs, windows, gates = self.weights, self.settings.window, [], [], []
        for video, number in enumerate(captioned.tolist()):
            logit, _, log_length, shift = rows[video, :, number]
            center, length = anchors[number]
            middle, stretched = center + shift * length, length * log_length.exp()
            start, end = middle - stretched / 2, middle + stretched / 2
            first = math.floor(min(max(float(start.detach()), 0), window - 1))
            last = math.ceil(min(max(float(end.detach()), 1), window))
            windows.append(torch.tensor([float(first <= step < last) for step in range(window)]).double())
            opens, closes = max(0, math.floor(center - length / 2)), min(window, math.ceil(center + length / 2))
            borders = [self.differentiable_sinusoid(place) for place in (start, end)]
            borders += [torch.tensor(sinusoid(place, self.settings.width // 4)).double() for place in (opens, closes)]
            anchor = torch.tensor([float(opens <= step < closes) for step in range(window)]).double()
            inputs.append(torch.cat((*borders, anchor)))
            gates.append(logit.sigmoid())
        inside = torch.stack(windows)
        if self.settings.mask == "discrete":
            return inside, torch.zeros(()).double()
        hidden = (torch.stack(inputs) @ w["mask_model.0.weight"].T)[..., None]
        hidden = self.batch_norm("mask_model.1", hidden)[..., 0].relu()
        raw = hidden @ w["mask_model.3.weight"].T + w["mask_model.3.bias"]
        loss = (inside * (1 + (-raw).exp()).log() + (1 - inside) * (1 + raw.exp()).log()).mean()
        gate = torch.stack(gates)[:, None]
        return (raw if self.settings.mask == "learned" else gate * inside + (1 - gate) * raw), loss

    def differentiable_sinusoid(self, place: Tensor) -> Tensor:
        width = self.settings.width // 4
        waves = [
            torch.sin(place / 10000 ** (i / width)) if i % 2 == 0 else torch.cos(place / 10000 ** ((i - 1) / width))
            for i in range(width)
        ]
        return torch.stack(waves)

    def decode(self, words: Tensor, memory: list[Tensor]) -> Tensor:
        embedding, width = self.weights["cap_model.decoder.out.weight"], self.settings.width
        x = self.drop(embedding[words] * math.sqrt(width) + self.positions(words.shape[1]))
        for layer in range(self.settings.layers):
            prefix = f"cap_model.decoder.layers.{layer}"
            x = self.norm(f"{prefix}.selfattn", x + self.drop(self.attend(f"{prefix}.selfattn", x, x, causal=True)))
            x = self.norm(f"{prefix}.attention", x + self.drop(self.attend(f"{prefix}.attention", x, memory[layer])))
            x = self.norm(f"{prefix}.feedforward", x + self.drop(self.feed(prefix, x)))
        return x @ embedding.T + self.weights["cap_model.decoder.out.bias"]

    def attend(self, name: str, queries: Tensor, memory: Tensor, *, causal: bool = False) -> Tensor:
        w, width, count = self.weights, self.settings.width, self.settings.heads
        q, k, v = (
            x @ w[f"{name}.layer.w{part}.weight"].T for part, x in zip("qkv", (queries, memory, memory), strict=True)
        )
        kept = self.draw((len(q), count, q.shape[1], k.shape[1]), self.dropped)
        size, heads = width // count, []
        for head in range(count):
            part = slice(head * size, (head + 1) * size)
            logits = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(width)
            if causal:
                logits = logits.masked_fill(torch.ones_like(logits).triu(1) > 0, -math.inf)
            heads.append(logits.softmax(-1) * kept[:, head] / (1 - self.dropped) @ v[..., part])
        return torch.cat(heads, 2) @ w[f"{name}.layer.wo.weight"].T

    def feed(self, prefix: str, x: Tensor) -> Tensor:
        first, second = (f"{prefix}.feedforward.layer.linear{n}" for n in (1, 2))
        w = self.weights
        return (x @ w[f"{first}.weight"].T + w[f"{first}.bias"]).relu() @ w[f"{second}.weight"].T + w[f"{second}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        gain, shift = self.weights[f"{name}.layernorm.gamma"], self.weights[f"{name}.layernorm.beta"]
        return gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + shift

    def batch_norm(self, name: str, x: Tensor) -> Tensor:
        """Of video x channel x place, with the statistics of this batch, padding included."""
        count = x.shape[0] * x.shape[2]
        mean = x.sum((0, 2)) / count
        variance = (x - mean[:, None]).square().sum((0, 2)) / count
        for part, value in (("mean", mean), ("var", variance * count / (count - 1))):
            old = self.weights[f"{name}.running_{part}"]
            self.moved[f"{name}.running_{part}"] = 0.9 * old + 0.1 * value.detach()
        gain, shift = self.weights[f"{name}.weight"][:, None], self.weights[f"{name}.bias"][:, None]
        return (x - mean[:, None]) / (variance + 1e-5).sqrt()[:, None] * gain + shift
