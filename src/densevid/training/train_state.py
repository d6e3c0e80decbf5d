"""The learner: a model with its optimiser, learning rate and weight average; it takes batches and learns from each."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from densevid.config import Config
from densevid.data.batches import Batch
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.distributed import Ranks, mean_over_ranks, with_synchronised_norms
from densevid.training.loss_monitor import Sums
from densevid.training.optim import Schedule, WeightAverage, optimizer_for, step_if_finite
from densevid.training.rewards import Reward
from densevid.training.step import Objective


@dataclass
class Position:
    """Where in the run we are: the epoch, how many of its batches are done, and the sums of their losses."""

    epoch: int = 0
    batch: int = 0
    sums: Sums = field(default_factory=Sums)


class TrainState:
    """All that changes while a model learns. `step` counts the batches it has learnt from."""

    def __init__(
        self,
        model: MaskedTransformer,
        config: Config,
        total_steps: int,
        *,
        ranks: Ranks | None = None,
        reward: Reward | None = None,
    ) -> None:
        self.config, self.model, self.step = config, model, 0
        self.device = next(model.parameters()).device
        freeze_what_does_not_learn(model, config)
        self.objective: nn.Module = Objective(model, config, reward)
        if ranks is not None and ranks.count > 1:
            with_synchronised_norms(model, self.device)
            self.objective = DistributedDataParallel(self.objective)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = optimizer_for(model, config.training)
        self.schedule = Schedule(config.training, total_steps)
        self.average = WeightAverage(model, config.training.ema) if config.training.ema else None

    def learn(self, batch: Batch, epoch: int) -> Tensor:
        """Forward, backward, clip, step. Gives the `PARTS` of all ranks together, then this rank's own total.

        A step whose gradient is not finite changes no weight, on any rank, for the gradients of all are the same.
        Nothing here waits for the device, so the next batch can follow at once.
        """
        self.schedule.apply(self.optimizer, self.step)
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.config, self.device):
            loss, parts = self.objective(batch, epoch)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.training.gradient_clip)
        step_if_finite(self.optimizer, norm)
        self.step += 1
        if self.average is not None:
            self.average.update(self.model, self.step)
        values = torch.stack([loss.detach().float(), *(part.float() for part in parts.values()), norm.float()])
        return torch.cat((mean_over_ranks(values), values[:1]))

    @property
    def learning_rate(self) -> float:
        """The rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])


def autocast(config: Config, device: torch.device) -> torch.autocast:
    """bfloat16 where it is asked for and the device is made for it; a CPU computes in float32."""
    wanted = config.training.precision == "bfloat16" and device.type == "cuda"
    return torch.autocast(device.type, torch.bfloat16, enabled=wanted)


def freeze_what_does_not_learn(model: MaskedTransformer, config: Config) -> None:
    """Parts without a loss do not learn; optimiser and ranks then need not look after them."""
    unused: dict[str, list[nn.Module]] = {
        "dense": [],
        "proposals": [model.masking, model.caption_decoder],
        "captions": [model.masking, model.proposal_decoder],
    }
    kept: list[nn.Module] = [model.input_embedding, model.encoder] if config.training.frozen_encoder else []
    kept += [model.caption_decoder] if config.training.frozen_captioner else []
    for part in (*unused[config.training.task], *kept):
        part.requires_grad_(False)
