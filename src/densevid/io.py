"""Writes files whole or not at all, each with a provenance block: versions, settings and hashes of the inputs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import densevid
from densevid.errors import InputError

PART_NAME = 40  # letters of a file's name that are in its temporary one


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Write a file whole or not at all.

    Args:
        path: The file to write; its folder is made.

    Yields:
        A temporary file beside it, which is renamed to `path` at the end of the block, or deleted after an error.

    Raises:
        InputError: The file cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        begins = path.name[:PART_NAME]  # a longer name could exceed the limit of the file system
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{begins}.", suffix=".part")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        to_disk(temporary)
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def require_writable(path: Path | str) -> None:
    """Raise InputError if `path` cannot be written, before the work is done; nothing is made or changed."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    existing = next(folder for folder in (path.absolute().parent, *path.absolute().parents) if os.path.lexists(folder))
    if not existing.is_dir():
        raise InputError(f"cannot write {path}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {path}: no permission to write in {existing}")


@contextmanager
def tensor_path(path: Path | str) -> Iterator[Path]:
    """`atomic_path` for safetensors, whose errors, as of a full disk, are not OSErrors."""
    from safetensors import SafetensorError

    try:
        with atomic_path(path) as temporary:
            yield temporary
    except SafetensorError as error:
        raise InputError(f"cannot write {path}: {error}") from error


def write_text(path: Path | str, text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path | str, content: Any, *, indent: int | None = 1) -> None:
    """Write strict JSON atomically: NaN and infinity are refused, never written."""
    text = json.dumps(content, indent=indent, allow_nan=False, ensure_ascii=False) + "\n"
    with atomic_path(path) as temporary:  # half a surrogate pair cannot be UTF-8, but JSON has an escape for it
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


def read_json(path: Path | str, *, object_from: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Read a JSON file.

    Args:
        path: The file.
        object_from: Makes an object of its (key, value) pairs; by default a dict.

    Raises:
        InputError: The file cannot be read, or is not JSON.
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=object_from)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise InputError(f"{path}: not valid JSON ({error})") from error


def toml_text(table: Mapping[str, Any]) -> str:
    """A plain nested mapping as TOML text; None, which TOML does not have, is left out."""
    return "\n".join(_toml_tables(table, ())).lstrip("\n") + "\n"


def _toml_tables(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    if path:
        yield f"\n[{'.'.join(map(_toml_key, path))}]"
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    for key, value in table.items():
        if value is not None and key not in nested:
            yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in nested.items():
        yield from _toml_tables(value, (*path, key))


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON and TOML share their escapes
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    raise TypeError(f"no TOML form for {type(value).__name__}: {value!r}")


def provenance(*, config_hash: str | None = None, inputs: Iterable[Path | str] = (), **more: Any) -> dict[str, Any]:
    """The block in every written file: version, commit, configuration and the hashes of the inputs.

    Args:
        config_hash: The hash of the settings.
        inputs: Files and folders that were read.
        more: Further entries.
    """
    paths = [Path(path) for path in inputs]
    names = Counter(path.name for path in paths)
    return {
        "densevid": densevid.__version__,
        "commit": source_commit(),
        "config": config_hash,
        "inputs": {path.name if names[path.name] == 1 else str(path): fingerprint(path) for path in paths},
        **more,
    }


def fingerprint(path: Path | str) -> str:
    """sha256 of a file; of a folder: of its files' names, sizes and change times, so that large ones are cheap."""
    path = Path(path)
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            status = file.stat()
            digest.update(f"{file.relative_to(path)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        return f"listing-sha256:{digest.hexdigest()}"
    with path.open("rb") as file_handle:
        while block := file_handle.read(1 << 20):
            digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def hash_of(mapping: Mapping[str, Any]) -> str:
    """A short, stable hash of plain settings."""
    return hashlib.sha256(json.dumps(mapping, sort_keys=True).encode()).hexdigest()[:16]


@cache
def source_commit() -> str | None:
    """The commit of the checkout this package runs from, with `+changes` if it is dirty; None when installed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def cache_folder() -> Path:
    """$DENSEVID_CACHE, or the cache folder of the platform; it need not exist, nor be writable."""
    if chosen := os.environ.get("DENSEVID_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "densevid"


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk and survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
