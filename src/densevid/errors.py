"""The one exception that means "the input is wrong": its text is shown to the user as it is, on one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what, where, and what to do."""


def one_line(error: BaseException) -> str:
    """The text of an error folded onto one line, for stderr."""
    return " ".join(str(error).split()) or type(error).__name__


def run_main(main: Callable[[], int]) -> NoReturn:
    """Run a module as a program: what the user got wrong is one line on stderr and exit code 2."""
    try:
        raise SystemExit(main())
    except InputError as error:
        print(f"densevid: {one_line(error)}", file=sys.stderr)
        raise SystemExit(2) from None
