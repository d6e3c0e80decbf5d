"""Reads settings: the defaults of `schema`, overridden by a preset or TOML file, overridden by `--set model.layers=4`.

An unknown key, a wrong type or an impossible value is an InputError that names the key on one line.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from densevid.config.schema import FeaturesConfig, InferenceConfig, ModelConfig, TrainingConfig
from densevid.errors import InputError
from densevid.io import hash_of, toml_text, write_text
from densevid.legacy import current_settings

LEADING_POINT = r"(?<![\w.\"'])(?=\.\d)\."  # TOML wants 0.3, people write .3


@dataclass(frozen=True)
class Config:
    """All settings of a run or a model."""

    model: ModelConfig = field(default_factory=ModelConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)

    def __post_init__(self) -> None:
        for section in fields(self):
            getattr(self, section.name).check()

    def with_values(self, values: Mapping[str, Mapping[str, Any]], *, where: str = "") -> Config:
        """A copy with other values, each checked against its type.

        Args:
            values: `{section: {key: value}}`; keys of version 0.1 are mapped and reported.
            where: What they were read from, with a colon and a space, for error messages.

        Raises:
            InputError: A key is unknown, or a value has the wrong type or is impossible.
        """
        changed = {}
        for section, entries in current_settings(values, where).items():
            if section not in {item.name for item in fields(self)}:
                raise InputError(f"{where}unknown section {section!r}; there are {_names(self)}")
            if not isinstance(entries, Mapping):
                raise InputError(f"{where}{section} must be a table of settings, got {entries!r}")
            old = getattr(self, section)
            types = get_type_hints(type(old))
            for key in entries:
                if key not in types:
                    raise InputError(f"{where}unknown key {section}.{key}; {section} has {_names(old)}")
            typed = {key: _typed(f"{where}{section}.{key}", value, types[key]) for key, value in entries.items()}
            if "max_proposals" in typed and "min_proposals" not in typed:  # a lower maximum lowers the minimum
                typed["min_proposals"] = min(old.min_proposals, typed["max_proposals"])
            changed[section] = replace(old, **typed)
        try:
            return replace(self, **changed)
        except InputError as error:  # an impossible value
            raise InputError(f"{where}{error}") from error

    def with_settings(self, assignments: Iterable[str]) -> Config:
        """Apply flags like `model.layers=4`; all of them together, so their order does not matter."""
        values: dict[str, dict[str, Any]] = {}
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            section, dot, key = name.strip().partition(".")
            if not equals or not dot or not key:
                raise InputError(f"--set wants section.key=value, got {assignment!r}")
            values.setdefault(section, {})[key] = _toml_value(name, text.strip())
        return self.with_values(values)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Plain nested settings."""
        return asdict(self)

    def chosen(self) -> dict[str, dict[str, Any]]:
        """The settings that differ from the defaults: a later version with more settings gives the same."""
        default = Config().as_dict()
        return {
            section: {key: value for key, value in values.items() if value != default[section][key]}
            for section, values in self.as_dict().items()
        }

    def as_toml(self) -> str:
        """The whole configuration as TOML text."""
        return toml_text(self.as_dict())

    @property
    def hash(self) -> str:
        """A short hash that changes with any setting."""
        return hash_of(self.as_dict())

    def save(self, path: Path | str) -> None:
        """Write the configuration as a TOML file."""
        write_text(path, self.as_toml())


def presets() -> list[str]:
    """Names of the shipped presets."""
    folder = files("densevid.config") / "presets"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


BESIDE_SETTINGS = ("format", "provenance")  # in the config.toml of a model folder


def load_config(source: str | Path | None = None, settings: Iterable[str] = ()) -> Config:
    """Read settings.

    Args:
        source: The name of a preset, or a TOML file, such as config.toml of a model folder; by default the defaults.
        settings: Flags like `model.layers=4`, which override the file.

    Raises:
        InputError: The file cannot be read, or a setting is unknown or impossible.
    """
    config = Config()
    if source is not None:
        config = config.with_values(_read(source), where=f"{source}: ")
    return config.with_settings(settings)


def _read(source: str | Path) -> dict[str, Any]:
    if str(source) in presets():
        return tomllib.loads((files("densevid.config") / "presets" / f"{source}.toml").read_text(encoding="utf-8"))
    path = Path(source)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{source}: neither a file nor a preset; presets are {', '.join(presets())}") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not TOML, or a number too long
        raise InputError(f"{path}: not a readable TOML file ({error})") from error
    return {name: section for name, section in values.items() if name not in BESIDE_SETTINGS}


def _names(section: Any) -> str:
    return ", ".join(item.name for item in fields(section))


def _toml_value(key: str, text: str) -> Any:
    """Parse a flag's value as TOML; a bare word is taken as a string."""
    try:
        values = tomllib.loads(f"value = {re.sub(LEADING_POINT, r'0.', text)}")
        if len(values) == 1 and "\n" not in text:
            return values["value"]
        raise InputError(f"--set {key}: {text!r} is more than one TOML value")
    except (tomllib.TOMLDecodeError, RecursionError):
        if text and all(character.isalnum() or character in "-_./" for character in text):
            return text
        raise InputError(f"--set {key}: {text!r:.80} is not a TOML value") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--set {key}: a number of {len(text)} digits is too large") from None


def _typed(key: str, value: Any, hint: Any) -> Any:
    """`value` as the declared type; raises InputError, with the key, if it is of another."""
    origin = get_origin(hint)
    if origin is Literal:
        if value not in get_args(hint):
            raise InputError(f"{key} = {value!r} must be one of {', '.join(map(repr, get_args(hint)))}")
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{key} = {value!r} must be a list")
        return tuple(_typed(key, item, get_args(hint)[0]) for item in value)
    if not isinstance(value, (hint, int) if hint is float else hint) or (isinstance(value, bool) and hint is not bool):
        raise InputError(f"{key} = {value!r} must be of type {hint.__name__}")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise InputError(f"{key}: a number of {value.bit_length()} bits is too large")
    value = hint(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{key} must be a finite number, got {value}")
    return value
