"""The loss of a batch: several segments a video are those one by one; smoothing, frozen parts, scheduled sampling."""

from __future__ import annotations

import pytest
import torch

from densevid.config import Config, TrainingConfig, load_config
from densevid.data.annotations import Annotations
from densevid.data.batches import Batch
from densevid.data.dataloader import BatchSampler, SegmentLoader
from densevid.data.dataset import SegmentDataset
from densevid.data.sources import InMemoryFeatures
from densevid.data.vocabulary import Vocabulary
from densevid.model.masked_transformer import MaskedTransformer
from densevid.training.objective import mix_words, sampling_ratio, total_loss
from densevid.training.train_state import TrainState
from examples.learn_generated_videos import RECIPE, SENTENCES, SMALL, generate

TRACKS, TRUTH = generate(3, 5)
VOCABULARY = Vocabulary.build(SENTENCES, 1)
VARIANTS = {
    "dense": {},
    "discrete": {"model": {"mask": "discrete"}},
    "recurrent": {"model": {"encoder": "bi-lstm", "decoder": "lstm"}},
    "released": {"model": {"compat": "released"}},
    "proposals": {"training": {"task": "proposals"}},
    "captions": {"training": {"task": "captions"}},
    "sums": {"training": {"reduction": "sum"}},
}


def batches(config: Config, together: int) -> list[Batch]:
    dataset = SegmentDataset(Annotations(TRUTH, {}, []), InMemoryFeatures(TRACKS, RECIPE), VOCABULARY, config)
    return list(SegmentLoader(dataset, BatchSampler(100, 0, together, shuffled=False)).batches(0))


def model_of(config: Config) -> MaskedTransformer:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return MaskedTransformer(config, len(VOCABULARY))


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_several_segments_a_video_have_the_loss_and_gradients_of_single_ones(variant: str) -> None:
    config = SMALL.with_values({"model": {"width": 16, "hidden": 16}}).with_values(VARIANTS[variant])  # type: ignore[arg-type]
    (apart,), (together,) = batches(config, 1), batches(config, 9)
    assert len(apart) == len(together) and len(together.videos) == 5 < len(apart.videos)
    model = model_of(config).eval()
    losses = []
    for batch in (apart, together):
        model.zero_grad()
        total, parts = total_loss(model, batch, config, epoch=2)
        total.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        losses.append((total.detach(), parts.detached(), gradients))
    torch.testing.assert_close(losses[0], losses[1], atol=1e-5, rtol=1e-4)


def test_smoothing_is_for_training_alone() -> None:
    config = SMALL.with_values({"training": {"task": "captions", "label_smoothing": 0.3}})
    plain = SMALL.with_values({"training": {"task": "captions"}})
    (batch,) = batches(config, 1)
    model = model_of(config)
    smooth, sharp = (float(total_loss(model.train(), batch, chosen)[0].detach()) for chosen in (config, plain))
    assert abs(smooth - sharp) > 1e-4
    smooth, sharp = (float(total_loss(model.eval(), batch, chosen)[0].detach()) for chosen in (config, plain))
    assert smooth == sharp
    uniform = SMALL.with_values({"training": {"task": "captions", "label_smoothing": 0.999999}})
    logs = torch.log(torch.tensor(float(len(VOCABULARY))))
    with torch.no_grad():
        model.caption_decoder.words.weight.zero_()
        model.caption_decoder.words.bias.zero_()
    assert total_loss(model.train(), batch, uniform)[1].words.item() == pytest.approx(float(logs), rel=1e-4)


@pytest.mark.parametrize(
    ("task", "frozen"),
    [("dense", set()), ("proposals", {"masking", "caption_decoder"}), ("captions", {"masking", "proposal_decoder"})],
)
def test_parts_that_the_task_does_not_train_are_frozen(task: str, frozen: set[str]) -> None:
    config = SMALL.with_values({"training": {"task": task, "ema": 0.5}})
    learner = TrainState(model_of(config), config, 10)
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    (batch,) = batches(config, 1)
    values = learner.train_step(batch)
    assert values.shape == (7,) and values[0] == values[6] and learner.step == 1
    names = {name for name, parameter in learner.model.named_parameters() if not parameter.requires_grad}
    assert {name.split(".")[0] for name in names} == frozen
    assert all(torch.equal(before[name], learner.model.state_dict()[name]) for name in names)
    missing = [
        name
        for name, parameter in learner.model.named_parameters()
        if parameter.requires_grad and parameter.grad is None
    ]
    assert not missing, "every parameter that learns has a gradient, so ranks need not look for unused ones"


@pytest.mark.parametrize(("epoch", "ratio"), [(0, 0.05), (4, 0.05), (5, 0.1), (19, 0.2), (20, 0.25), (99, 0.25)])
def test_the_sampling_ratio_rises_as_in_the_appendix(epoch: int, ratio: float) -> None:
    assert sampling_ratio(load_config("caption-only").training, epoch) == pytest.approx(ratio)


def test_scheduled_sampling_is_off_by_default() -> None:
    assert sampling_ratio(TrainingConfig(), 50) == 0


def test_guesses_move_one_place_to_the_right() -> None:
    words = torch.tensor([[2, 5, 6, 7]])
    logits = torch.nn.functional.one_hot(torch.tensor([[9, 10, 11, 12]]), 13).float()
    assert mix_words(words, logits, 1.0).tolist() == [[2, 9, 10, 11]]
    assert mix_words(words, logits, 0.0).tolist() == words.tolist()
    many = mix_words(words.expand(4000, 4), logits.expand(4000, 4, 13), 0.25)
    assert float((many[:, 1:] > 8).float().mean()) == pytest.approx(0.25, abs=0.03)
