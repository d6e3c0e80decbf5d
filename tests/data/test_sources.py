"""Whether features suit a model: by recipe where there is one, else by widths, with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from densevid.data.sources import check_recipe
from densevid.data.store.reader import FeatureStore
from densevid.errors import InputError
from densevid.tracks import FeatureRecipe

STREAMS = (("appearance", 5), ("motion", 3))
HALF_SECOND = FeatureRecipe({"name": "two-stream", "version": 1, "sampling": {"seconds": 0.5}})
SECOND = FeatureRecipe({"name": "two-stream", "version": 1, "sampling": {"seconds": 1.0}})


def test_the_same_recipe_passes_silently(tmp_path: Path) -> None:
    assert check_recipe(HALF_SECOND, STREAMS, FeatureStore.create(tmp_path, STREAMS, recipe=HALF_SECOND)) is None


def test_another_recipe_is_refused_with_what_differs_and_what_to_do(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path, STREAMS, recipe=SECOND)
    with pytest.raises(InputError, match=r"sampling\).*extract VIDEO --out STORE --backbone two-stream") as caught:
        check_recipe(HALF_SECOND, STREAMS, store)
    assert "\n" not in str(caught.value) and SECOND.id in str(caught.value) and HALF_SECOND.id in str(caught.value)


def test_no_recipe_and_fitting_widths_pass_with_one_warning(tmp_path: Path) -> None:
    names_differ = FeatureStore.create(tmp_path / "a", (("resnet", 5), ("bn", 3)))
    warning = check_recipe(HALF_SECOND, STREAMS, names_differ)
    assert warning is not None and HALF_SECOND.id in warning
    assert check_recipe(None, STREAMS, FeatureStore.create(tmp_path / "b", STREAMS, recipe=SECOND)) is not None


@pytest.mark.parametrize("recipe", [None, HALF_SECOND])
def test_other_widths_never_pass(tmp_path: Path, recipe: FeatureRecipe | None) -> None:
    store = FeatureStore.create(tmp_path, (("appearance", 8),), recipe=recipe)
    with pytest.raises(InputError, match=r"features are appearance 8, the model reads appearance 5 \+ motion 3"):
        check_recipe(HALF_SECOND, STREAMS, store)


def test_other_weights_of_the_same_name_are_not_cured_by_the_same_command(tmp_path: Path) -> None:
    other = FeatureRecipe({**HALF_SECOND.table, "version": 2})
    store = FeatureStore.create(tmp_path, STREAMS, recipe=other)
    with pytest.raises(InputError, match=r"not the same: version\); install the .* trained with, or train it anew"):
        check_recipe(HALF_SECOND, STREAMS, store)
