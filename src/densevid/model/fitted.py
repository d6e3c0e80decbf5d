"""What is fitted to features beside the network: a few tensors in a file of their own in the model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from densevid.artifacts import tensor_path
from densevid.errors import InputError


@dataclass(frozen=True, eq=False)
class Fitted:
    """Tensors by name. `about` is where they come from: what they were fitted on, and the provenance of their file."""

    called: ClassVar[str]
    format: ClassVar[int] = 1
    about: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def names(cls) -> list[str]:
        """Of every tensor."""
        return [part.name for part in fields(cls) if part.name != "about"]

    @property
    def parts(self) -> dict[str, Tensor]:
        """Every tensor by its name."""
        return {name: getattr(self, name) for name in self.names()}

    def made_by(self, provenance: Mapping[str, Any]) -> Self:
        """The same with the provenance of the file it is about to be written to."""
        return replace(self, about={**self.about, "provenance": provenance})

    def to(self, device: torch.device) -> Self:
        """The same on a device, in single precision."""
        parts = {name: part.to(device, torch.float32) for name, part in self.parts.items()}
        return type(self)(**parts, about=self.about)

    def require_shapes(self, shapes: Mapping[str, tuple[int, ...]], where: Path | str) -> None:
        """Raise unless every tensor has its shape and holds numbers."""
        for name, part in self.parts.items():
            if part.shape != (wanted := shapes[name]):
                raise InputError(f"{where}: {name} is {tuple(part.shape)}, this model wants {wanted}; fit it anew")
            if not bool(part.isfinite().all()):
                raise InputError(f"{where}: {name} holds NaN or infinity; fit it anew")

    def save(self, path: Path, *, half_precision: bool = False) -> None:
        """Write it."""
        precision = torch.float16 if half_precision else torch.float32
        stored = {name: part.to("cpu", precision).contiguous() for name, part in self.parts.items()}
        for name, part in stored.items():
            if not bool(part.isfinite().all()):
                raise InputError(f"cannot write {path}: {name} does not fit into {precision}")
        about = {"format": self.format, **self.about}
        with tensor_path(path) as temporary:
            save_file(stored, temporary, metadata={"densevid": json.dumps(about)})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            with safe_open(path, "pt") as file:
                tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
                about = json.loads((file.metadata() or {}).get("densevid", "{}"))
        except (OSError, SafetensorError, ValueError) as error:
            raise InputError(f"{path}: not a readable safetensors file ({error})") from error
        if tensors.keys() != set(cls.names()) or not isinstance(about, dict):
            raise InputError(f"{path}: not {cls.called}: it holds {sorted(tensors)}, not {sorted(cls.names())}")
        if about.pop("format", None) != cls.format:
            raise InputError(f"{path}: of another format than this densevid reads; fit it anew")
        return cls(**tensors, about=about)
