"""FeatureSource: what provides features by video id, and the check of features against a model's recipe.

Implementations: `FeatureStore` (`data.store`), the layouts of others (`data.npy_features`, `data.layouts`), composed
timelines (`timelines.sources`), and `InMemoryFeatures`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from densevid.errors import InputError
from densevid.tracks import Extent, FeatureRecipe, FeatureTrack, Streams, streams_text
from densevid.video.reduction import Reduction


class FeatureSource(Protocol):
    """Feature tracks by video id. An unknown id raises an InputError."""

    @property
    def streams(self) -> Streams:
        """Name and width of each stream, the same for every video."""
        ...

    @property
    def recipe(self) -> FeatureRecipe | None:
        """How the features were made, None if unknown."""
        ...

    def videos(self) -> list[str]:
        """All ids, sorted."""
        ...

    def track(self, video: str) -> FeatureTrack:
        """The features of one video, in the precision they are stored in."""
        ...

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration of one video, without reading its features."""
        ...

    def __contains__(self, video: object) -> bool: ...

    def __len__(self) -> int: ...


def reduction_of(source: FeatureSource | None) -> Reduction | None:
    """The PCA that reduced the features of a source; only stores, and what is composed of them, have one."""
    return getattr(source, "reduction", None)


def unknown_video(video: str, source: object, videos: Sequence[str]) -> InputError:
    """The error for an id that a source does not have."""
    like = f", which has ids like {videos[0]!r}" if videos else ", which is empty"
    return InputError(f"{video}: no features in {source}{like}")


def check_recipe(wanted: FeatureRecipe | None, wanted_streams: Streams, source: FeatureSource) -> str | None:
    """Check whether a model can read the features of a source.

    Args:
        wanted: The recipe of the features the model was trained on, None if unknown.
        wanted_streams: Names and widths of their streams.
        source: The features.

    Returns:
        None if the recipes are equal, a warning if one of them is unknown and the widths are equal.

    Raises:
        InputError: The widths or the recipes differ; the message has the command that makes the right features.
    """
    extracted = wanted is not None and "sampling" in wanted.table  # the release's features cannot be computed here
    make = f"; make the right ones with `{_extract_command(wanted)}`" if wanted and extracted else ""
    got_widths, wanted_widths = _widths(source.streams), _widths(wanted_streams)
    if got_widths != wanted_widths:
        raise InputError(
            f"the features are {streams_text(source.streams)}, the model reads {streams_text(wanted_streams)}{make}"
        )
    if wanted is None:
        return "the model has no feature recipe; the widths of the features are right"
    if source.recipe is None:
        return f"the features have no recipe; the model reads {wanted.id}, and their widths are right"
    if source.recipe.id != wanted.id:
        keys = ", ".join(wanted.differences(source.recipe))
        if set(wanted.differences(source.recipe)) <= {"version", "weights"}:
            make = (
                f"; install the densevid or the weights that the model was trained with, or train it anew on these"
                f" features (`{_extract_command(wanted)}` makes them with what is installed)"
            )
        raise InputError(
            f"the features were made with recipe {source.recipe.id}, the model reads {wanted.id}"
            f" (not the same: {keys}){make}"
        )
    return None


def _extract_command(recipe: FeatureRecipe) -> str:
    """The command that makes features of this recipe."""
    sampling = recipe.table.get("sampling", {})
    every = sampling.get("seconds_per_step", 0.5) if isinstance(sampling, dict) else 0.5
    rate = "" if every == 0.5 else f" --every {every:g}"
    reduction = " --reduction MODEL_DIR" if "reduction" in recipe.table else ""
    return f"densevid extract VIDEO --out STORE --backbone {recipe.name}{rate}{reduction}"


def _widths(streams: Streams) -> list[int]:
    return [width for _, width in streams]


class InMemoryFeatures:
    """Tracks in memory as a FeatureSource.

    Args:
        tracks: Tracks by video id, all with the same streams.
        recipe: How they were made, if known.

    Raises:
        InputError: The tracks have different streams, or there are none.
    """

    def __init__(self, tracks: Mapping[str, FeatureTrack], recipe: FeatureRecipe | None = None) -> None:
        self._tracks = dict(tracks)
        self.recipe = recipe
        widths = {track.streams for track in self._tracks.values()}
        if len(widths) != 1:
            raise InputError(f"expected tracks with the same streams, got {len(widths)} kinds of streams")
        self.streams = widths.pop()

    def videos(self) -> list[str]:
        """All ids, sorted."""
        return sorted(self._tracks)

    def track(self, video: str) -> FeatureTrack:
        """The features of one video."""
        if video not in self._tracks:
            raise unknown_video(video, "memory", self.videos())
        return self._tracks[video]

    def extent(self, video: str) -> Extent:
        """Steps, clock and duration of one video."""
        return self.track(video).extent

    def __contains__(self, video: object) -> bool:
        return video in self._tracks

    def __len__(self) -> int:
        return len(self._tracks)
