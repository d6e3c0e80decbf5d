"""`TrainState`: all that changes while a model learns, which is what a checkpoint holds; and one training step."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from densevid.config import Config
from densevid.data.batches import Batch
from densevid.device import has_bfloat16_instructions
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.distributed import Ranks, mean_over_ranks, with_synchronised_norms
from densevid.training.loss_monitor import LossSums, SkippedSteps
from densevid.training.objective import Objective
from densevid.training.optim import Schedule, WeightAverage, optimizer_for, step_if_finite
from densevid.training.rewards import Reward


class TrainState:
    """A model with its optimizer, learning rate schedule, weight average and counters.

    `checkpointing` writes and restores it, together with the state of the random number generators.

    Args:
        model: The model, on its device; parts that the task does not train are frozen.
        config: The settings of the run.
        total_steps: How long a cosine schedule is.
        ranks: The processes that train together; by default this one alone.
        reward: Rewards sampled captions in place of the true ones.
    """

    def __init__(
        self,
        model: MaskedTransformer,
        config: Config,
        total_steps: int,
        *,
        ranks: Ranks | None = None,
        reward: Reward | None = None,
    ) -> None:
        self.config, self.model = config, model
        self.device = next(model.parameters()).device
        freeze_unused_parts(model, config)
        self.objective: nn.Module = Objective(model, config, reward)
        if ranks is not None and ranks.count > 1:
            with_synchronised_norms(model, self.device)
            self.objective = DistributedDataParallel(self.objective)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = optimizer_for(model, config.training)
        self.schedule = Schedule(config.training, total_steps)
        self.average = WeightAverage(model, config.training.ema) if config.training.ema else None

        self.step = 0  # training steps so far
        self.epoch, self.batch = 0, 0  # the next batch: its epoch, and how many of the epoch came before it
        self.epoch_losses = LossSums()  # of the epoch so far
        self.recent_losses = LossSums()  # since the last row of metrics.csv
        self.skipped = SkippedSteps()
        self.best = math.inf  # the cost of the best model so far, the less the better

    def train_step(self, batch: Batch) -> Tensor:
        """Forward, backward, clip, step.

        A step whose gradient is not finite changes no weight, on any rank, for the gradients of all are the same.
        Nothing here waits for the device, so the next batch can follow at once.

        Returns:
            The `PARTS` of all ranks together, then this rank's own total.
        """
        self.schedule.apply(self.optimizer, self.step)
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.config, self.device):
            loss, parts = self.objective(batch, self.epoch)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.training.gradient_clip)
        step_if_finite(self.optimizer, norm)
        self.step += 1
        if self.average is not None:
            self.average.update(self.model, self.step)
        values = torch.stack([loss.detach().float(), *(part.float() for part in parts.values()), norm.float()])
        return torch.cat((mean_over_ranks(values), values[:1]))

    def next_epoch(self) -> None:
        """Go to the beginning of the next epoch."""
        self.epoch, self.batch, self.epoch_losses = self.epoch + 1, 0, LossSums()

    @property
    def learning_rate(self) -> float:
        """The rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])


def autocast(config: Config, device: torch.device) -> torch.autocast:
    """bfloat16 where `training.precision` and the device allow it: a GPU, or a CPU with units for it.

    Other CPUs compute in float32: there bfloat16 is emulated, and slower.
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=trained_in(config, device) == "bfloat16")


def trained_in(config: Config, device: torch.device) -> str:
    """The precision of products on a device."""
    able = device.type == "cuda" or (device.type == "cpu" and has_bfloat16_instructions())
    return config.training.precision if able else "float32"


def freeze_unused_parts(model: MaskedTransformer, config: Config) -> None:
    """Freeze the parts without a loss, which optimizer and ranks then leave out, and those that the settings freeze."""
    unused: dict[str, list[nn.Module]] = {
        "dense": [],
        "proposals": [model.masking, model.caption_decoder],
        "captions": [model.masking, model.proposal_decoder],
    }
    kept: list[nn.Module] = [model.input_embedding, model.encoder] if config.training.frozen_encoder else []
    kept += [model.caption_decoder] if config.training.frozen_captioner else []
    for part in (*unused[config.training.task], *kept):
        part.requires_grad_(False)
