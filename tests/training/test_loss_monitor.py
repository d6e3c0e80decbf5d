"""Gradients and losses that are not finite: their steps change nothing and are reported, and many end the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch import multiprocessing as processes

from densevid.config import Config, TrainingConfig
from densevid.data.annotations import Annotations
from densevid.data.batches import Batch
from densevid.data.dataloader import BatchSampler, SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.data.sources import InMemoryFeatures
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training import checkpointing, run
from densevid.training.distributed import Ranks, leave_at_once
from densevid.training.logging import read_metrics
from densevid.training.loss_monitor import LossMonitor, LossSums, SkippedSteps
from densevid.training.optim import optimizer_for, step_if_finite
from densevid.training.train_state import TrainState
from densevid.training.trainer import fit
from examples.learn_generated_videos import RECIPE, SENTENCES, generate
from helpers.tiny_run import TINY, assert_same_weights, settings, train_here, weights, write_tiny_data

BROKEN = {0, 4, 5, 9}  # steps, counted from 0
VOCABULARY = Vocabulary.build(SENTENCES, 1)
STEPWISE = settings("model.dropout=0.2", "training.ema=0.9", "training.batch_size=3", "training.epochs=4")


class BrokenLearner(TrainState):
    """In some steps a gradient is not a number, as a faulty kernel would make it."""

    broken: frozenset[int] = frozenset(BROKEN)
    fused = False

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)  # type: ignore[arg-type]
        self.parameters[-1].register_hook(self._break)
        for group in self.optimizer.param_groups:
            group["fused"] = self.fused  # as on a GPU, where the optimiser skips the step itself

    def _break(self, gradient: Tensor) -> Tensor:
        return torch.full_like(gradient, torch.nan) if self.step in self.broken else gradient


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def uninitialised_is_nan() -> Iterator[None]:
    """Memory that nobody has set cannot pass for zeros."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def everything(learner: TrainState) -> tuple[dict[str, Tensor], dict[int, dict[str, Tensor]]]:
    state = learner.optimizer.state_dict()["state"]
    parameters = {name: parameter.detach().clone() for name, parameter in learner.model.named_parameters()}
    return parameters, {number: {name: t.clone() for name, t in slots.items()} for number, slots in state.items()}


def loader_of(config: Config) -> SegmentLoader:
    tracks, truth = generate(0, 4)
    dataset = SegmentDataset(Annotations(truth, {}, []), InMemoryFeatures(tracks, RECIPE), VOCABULARY, config)
    return SegmentLoader(dataset, BatchSampler(4, 0))


def learner_of(config: Config, **named: object) -> BrokenLearner:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return BrokenLearner(MaskedTransformer(config, len(VOCABULARY)).train(), config, 100, **named)


@pytest.mark.usefixtures("uninitialised_is_nan")
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_a_skipped_step_changes_nothing(kind: str, fused: bool) -> None:
    """The good steps alone, taken by torch's own optimiser, give the same weights and state."""
    config = TrainingConfig(optimizer=kind, learning_rate=0.1, weight_decay=0.01)  # type: ignore[arg-type]
    ours, theirs = nn.Linear(3, 4), nn.Linear(3, 4)
    theirs.load_state_dict(ours.state_dict())
    optimizer = optimizer_for(ours, config)
    for group in optimizer.param_groups:
        group["fused"] = fused
    plain = {"lr": 0.1, "weight_decay": 0.01, "fused": fused}
    groups = [
        {"params": [theirs.weight]},
        {"params": [theirs.bias], **({"weight_decay": 0} if kind == "adamw" else {})},
    ]
    reference = {
        "sgd": lambda: torch.optim.SGD(groups, momentum=0.95, nesterov=True, **plain),
        "adam": lambda: torch.optim.Adam(groups, **plain),
        "adamw": lambda: torch.optim.AdamW(groups, **plain),
    }[kind]()
    for step, bad in enumerate((torch.nan, None, torch.inf, torch.nan, None, None)):
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.grad = torch.sin(mine.detach() + step)
            other.grad = mine.grad.clone()
        if bad is not None:
            assert ours.bias.grad is not None
            ours.bias.grad[2] = bad
        step_if_finite(optimizer, nn.utils.clip_grad_norm_(ours.parameters(), 1e9))
        if bad is None:
            reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)
        torch.testing.assert_close(optimizer.state[mine], reference.state[other], rtol=0, atol=0)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_a_broken_gradient_changes_no_weight(kind: str, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokenLearner, "fused", fused)
    config = TINY.with_values({"training": {"optimizer": kind, "ema": 0.9}})
    (batch, *_), learner = loader_of(config).batches(0), learner_of(config)
    for step in range(7):
        before, values, after = everything(learner), learner.train_step(batch), everything(learner)
        assert values[:5].isfinite().all() and bool(values[5].isfinite()) == (step not in BROKEN)
        changed = [name for name, tensor in after[0].items() if not torch.equal(tensor, before[0][name])]
        assert bool(changed) == (step not in BROKEN)
        if step in BROKEN and before[1]:
            torch.testing.assert_close(after[1], before[1], rtol=0, atol=0)
        assert learner.average is not None
        assert all(tensor.isfinite().all() for tensor in learner.average.tensors.values())
    assert learner.step == 7
    if kind == "adamw":
        assert {int(slots["step"]) for slots in after[1].values()} == {4}


def values_of(gradient: float = 1.0) -> Tensor:
    return torch.tensor([6.0, 1, 2, 3, 4, gradient, 6.0])


def test_means_are_those_of_the_gradients_that_there_were() -> None:
    warnings: list[str] = []
    monitor, sums = LossMonitor(SkippedSteps(), warnings.append), LossSums()
    for step, gradient in enumerate((torch.nan, 2.0, torch.inf, 4.0), start=1):
        for row in monitor.add(step, [f"v{step}", "other"], values_of(gradient)):
            sums.add(row)
        if step == 1:
            assert "gradient" not in sums.means() and sums.means()["total"] == 6
    assert sums.means()["gradient"] == 3 and sums.means()["words"] == 4 and sums.count == 4
    assert warnings == [
        "step 1: gradient nan is not finite, with the videos v1, other, though every loss is:"
        " this step is skipped, and others like it will be counted"
    ]
    assert monitor.skips == SkippedSteps(count=2, in_a_row=0)
    with pytest.raises(InputError, match=r"step 5: total nan, gradient nan is not finite, with the videos x"):
        monitor.add(5, ["x"], torch.tensor([torch.nan, 1, 2, 3, 4, torch.nan, torch.nan]))


def last_step(pattern: Iterator[bool]) -> int:
    """Which step ends a run whose steps are skipped by a pattern."""
    monitor = LossMonitor(SkippedSteps(), lambda text: None)
    for step, skipped in enumerate(pattern, start=1):
        try:
            monitor.add(step, ["v"], values_of(torch.nan if skipped else 1.0))
        except InputError as error:
            assert "too many" in str(error) and f"step {step}: gradient nan is not finite, with the videos v" in str(
                error
            )
            return step
    return 0


def test_many_skipped_steps_end_the_run() -> None:
    assert last_step(step > 10 for step in range(1, 100)) == 16, "five in a row are borne, six are not"
    assert last_step(step % 6 != 0 for step in range(1, 200)) == 0, "too few steps for a share"
    assert last_step(step % 6 != 0 for step in range(1, 300)) == 200
    assert last_step(step % 50 == 0 for step in range(1, 5000)) == 0, "one in fifty"
    assert last_step(step % 49 == 0 for step in range(1, 5000)) == 49 * 5, "5 of 245 are more than one in fifty"


@pytest.mark.parametrize("fused", [False, True])
def test_a_run_with_skipped_steps_warns_continues_and_resumes(
    data: Path, tmp_path: Path, fused: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "TrainState", BrokenLearner)
    monkeypatch.setattr(BrokenLearner, "fused", fused)
    assert train_here(data, tmp_path / "whole", *STEPWISE) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert "step 1: gradient nan is not finite, with the videos generated_0_" in lines[0]
    assert "4 of 28 steps were skipped: a gradient was not finite, though every loss was" in lines[1]
    assert len(lines) == 2
    table = read_metrics(tmp_path / "whole" / "metrics.csv")
    assert all("nan" not in row.values() and "inf" not in row.values() for row in table)
    assert all(row["gradient"] for row in table if row["split"] == "training")
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path / "whole").values())

    for stop in ("5", "7"):  # between two skipped steps, and after both
        assert train_here(data, tmp_path / "parts", *STEPWISE, "--resume", "--limit-steps", stop) == 0
    _, state = checkpointing.read(tmp_path / "parts" / "checkpoints" / "last.safetensors")
    assert state["skips"] == {"count": 3, "in_a_row": 0}
    capsys.readouterr()
    assert train_here(data, tmp_path / "parts", *STEPWISE, "--resume") == 0
    assert "4 of 28 steps were skipped" in capsys.readouterr().err
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")
    parts = read_metrics(tmp_path / "parts" / "metrics.csv")
    assert [row["gradient"] for row in table] == [row["gradient"] for row in parts]


def test_a_run_that_breaks_for_good_ends(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "TrainState", BrokenLearner)
    monkeypatch.setattr(BrokenLearner, "broken", frozenset(range(3, 100)))
    often = settings("training.checkpoint_every=1")
    assert train_here(data, tmp_path / "run", *STEPWISE, *often) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "step 9: gradient nan is not finite, with the videos generated_0_" in line
    assert "6 of 9 steps were skipped" in line and "6 in a row, which is too many" in line
    tensors, state = checkpointing.read(tmp_path / "run" / "checkpoints" / "last.safetensors")
    assert state["step"] == 8 and state["skips"] == {"count": 5, "in_a_row": 5}
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values() if tensor.is_floating_point())
    assert train_here(data, tmp_path / "run", *STEPWISE, *often, "--resume") == 2
    assert "step 9: gradient nan" in capsys.readouterr().err, "it ends where it ended before"


def test_training_in_memory_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("densevid.training.trainer.TrainState", BrokenLearner)
    torch.manual_seed(0)
    with pytest.warns(UserWarning) as warnings:
        fit(MaskedTransformer(TINY, len(VOCABULARY)), loader_of(TINY), TINY)
    first, last = (str(warning.message) for warning in warnings)
    assert "step 1: gradient nan" in first and "steps were skipped" in last


def learn_as_one_rank(rank: int, meeting: str) -> None:
    """Runs in a process of its own. Only on one rank is a gradient broken, before it is shared."""
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    try:
        learner = learner_of(TINY, ranks=Ranks(rank, 2))
        learner.broken = frozenset({1} if rank else ())
        batches: list[Batch] = list(loader_of(TINY).batches(0))
        warnings: list[str] = []
        monitor = LossMonitor(SkippedSteps(), warnings.append)
        for step in range(3):
            before = everything(learner)
            values = learner.train_step(batches[rank])
            same = torch.equal(
                before[0]["caption_decoder.words.bias"], everything(learner)[0]["caption_decoder.words.bias"]
            )
            assert same == (step == 1)
            monitor.add(learner.step, [f"of rank {rank}"], values)
        assert monitor.skips == SkippedSteps(1, 0) and "with the videos of rank 0, of rank 1, though" in warnings[0]
        flat = torch.cat([parameter.detach().flatten() for parameter in learner.parameters])
        other = flat.clone()
        dist.broadcast(other, 0)
        assert torch.equal(flat, other)
    finally:
        dist.destroy_process_group()
    leave_at_once()


def test_ranks_skip_the_same_steps(tmp_path: Path) -> None:
    processes.spawn(learn_as_one_rank, args=(str(tmp_path / "meeting"),), nprocs=2)


def test_the_monitor_names_the_videos_of_a_bad_batch() -> None:
    watch, sums = LossMonitor(SkippedSteps(), pytest.fail), LossSums()
    good = torch.tensor([6.0, 1, 2, 3, 4, 5, 6.0])
    for row in watch.add(1, ["a", "b"], good) + watch.add(2, ["c"], 3 * good):
        sums.add(row)
    assert sums.means()["total"] == 12 and sums.means()["gradient"] == 10
    bad = good.clone()
    bad[[0, 3, 6]] = torch.nan
    with pytest.raises(InputError, match=r"step 3: total nan, mask nan is not finite, with the videos x, y;"):
        watch.add(3, ["x", "y", "x"], bad)
    with pytest.raises(InputError, match=r"total nan, mask nan is not finite, with the videos v0, .* v7 and 2 more"):
        watch.add(4, [f"v{number}" for number in range(10)], bad)
