"""Where the clips of timelines lie while a model learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from densevid.config import Config
from densevid.data.vocabulary import Vocabulary
from densevid.errors import InputError
from densevid.timelines.clips import ClipCollection
from densevid.timelines.compose import TimelineGenerator
from densevid.timelines.dataset import TimelineDataset
from densevid.training import run
from densevid.training.run import footage_stays
from helpers.clip_collections import write_collection

GPU, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> TimelineDataset:
    folder: Path = write_collection(tmp_path_factory.mktemp("resident") / "clips")
    generator = TimelineGenerator(ClipCollection.read(folder), "train")
    config = Config().with_values({"features": {"streams": ["clip"], "widths": [16]}})
    return TimelineDataset(generator, Vocabulary.build(generator.sentences(), 1), config)


def settings(**training: object) -> Config:
    return Config().with_values({"training": training})


def test_clips_stay_on_a_gpu_by_default_and_on_a_cpu_on_request(samples: TimelineDataset) -> None:
    assert footage_stays(samples, settings().training, GPU)
    assert not footage_stays(samples, settings().training, CPU)
    assert footage_stays(samples, settings(features_on_device=True).training, CPU)


def test_clips_beyond_the_limit_stay_on_a_gpu_only_on_request(
    samples: TimelineDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MOST_RESIDENT", samples.generator.footage.nbytes - 1)
    assert not footage_stays(samples, settings().training, GPU)
    assert footage_stays(samples, settings(features_on_device=True).training, GPU)


def test_permuted_videos_are_composed_on_the_cpu(samples: TimelineDataset) -> None:
    assert not footage_stays(samples, settings(channel_permuted=0.5, proposal_loss="overlap").training, GPU)
    with pytest.raises(InputError, match=r"does not go with training\.channel_permuted"):
        footage_stays(
            samples, settings(channel_permuted=0.5, proposal_loss="overlap", features_on_device=True).training, GPU
        )
