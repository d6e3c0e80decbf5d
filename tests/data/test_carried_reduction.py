"""What features were reduced by follows them: through a collection of clips and its timelines into the model folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from densevid.checkpoint import load_model
from densevid.cli import main
from densevid.data.store.reader import FeatureStore
from densevid.timelines.clips import ClipCollection
from densevid.tracks import Clock, FeatureRecipe, FeatureTrack
from densevid.video.reduction import FILE, Reduction
from helpers.clip_collections import write_collection

BASE = FeatureRecipe({"name": "made", "version": 1})


def reduced_store(clips: Path, folder: Path) -> Reduction:
    """The clips' features, 16 wide, reduced to 8."""
    collection, values = ClipCollection.read(clips), np.load(clips / "features.npy").astype(np.float32)
    rows = {clip.name: values[clip.first_row : clip.first_row + clip.rows] for clip in collection.clips}
    clock, streams = Clock.uniform(0.5), (("clip", 16),)
    tracks = {name: FeatureTrack(own, clock, streams, BASE.id, len(own) / 2) for name, own in rows.items()}
    reduction, _ = Reduction.fit(tracks.values(), 8)
    recipe = reduction.recipe(BASE)
    store = FeatureStore.create(folder, reduction.streams, recipe=recipe)
    reduction.save(folder / FILE)
    with store.writer(commit_every=64) as writer:
        for name, track in tracks.items():
            writer.add(name, reduction.apply_to_track(track, recipe))
    return reduction


def test_a_model_trained_on_composed_timelines_carries_it(tmp_path: Path) -> None:
    clips = write_collection(tmp_path / "clips")
    reduction = reduced_store(clips, tmp_path / "store")
    settings = ["model.width=16", "model.hidden=16", "model.heads=2", "model.layers=1", "model.window=240"]
    settings += ["model.kernels=[4,8]", 'features.streams=["clip"]', "features.widths=[8]", "features.min_word_count=1"]
    settings += ["training.epochs=1", "training.batch_size=4"]
    flags = [word for setting in settings for word in ("--set", setting)]
    data = ["--timelines", str(clips), "--split", "train", "--features", str(tmp_path / "store")]
    assert main(["train", "modern", *data, "--out", str(tmp_path / "run"), "--limit-steps", "2", *flags]) == 0
    model = load_model(tmp_path / "run" / "model-last")
    assert model.reduction is not None and model.reduction.table == reduction.table
    ours, theirs = load_file(tmp_path / "run" / "model-last" / FILE), load_file(tmp_path / "store" / FILE)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
