"""The one exception that means "the input is wrong": its text is shown to the user as it is, on one line."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what, where, and what to do."""


def one_line(error: BaseException) -> str:
    """The text of an error folded onto one line, for stderr."""
    return " ".join(str(error).split()) or type(error).__name__
