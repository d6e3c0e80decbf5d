"""The one exception that means "the input is wrong": its text is shown to the user as it is, on one line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import NoReturn


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what, where, and what to do."""


class ArgumentError(InputError):
    """An argument cannot be what it is. Names of arguments stand in braces in the text: who calls a function reads them
    as they are, who gives a command as flags.
    """

    def __init__(self, text: str) -> None:
        super().__init__(re.sub(r"\{(\w+)\}", r"\1", text))
        self.with_flags = re.sub(r"\{(\w+)\}", r"--\1", text)


def printable(text: str) -> str:
    """Text without what a terminal would act upon; a file's name may hold anything, and question marks stand in."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def one_line(error: BaseException) -> str:
    """The text of an error folded onto one line, for stderr."""
    return _folded(str(error)) or type(error).__name__


def named(name: str, error: BaseException) -> str:
    """What went wrong with one of several things, on one line that begins with its name, once."""
    text, known = _reason(error), _folded(name)
    return text if text.startswith(f"{known}: ") else f"{known}: {text}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was wanting: Python's, a GPU's, or torch's own, which it tells in words alone."""
    by_torch = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and by_torch)


def _reason(error: BaseException) -> str:
    if is_out_of_memory(error):
        return "there is not enough memory for it"
    if isinstance(error, OSError) and error.strerror:
        return _folded(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return one_line(error)


def _folded(text: str) -> str:
    return printable(" ".join(text.split()))


def run_main(main: Callable[[], int]) -> NoReturn:
    """Run a module as a program: what the user got wrong is one line on stderr and exit code 2."""
    try:
        raise SystemExit(main())
    except InputError as error:
        print(f"densevid: {one_line(error)}", file=sys.stderr)
        raise SystemExit(2) from None
