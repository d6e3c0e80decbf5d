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
