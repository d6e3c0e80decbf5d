"""What a user sees when something goes wrong: `InputError`, shown as one line on stderr, and every verb's exit codes.

A verb's `run(arguments)` returns an `ExitCode`, or None for `ExitCode.DONE`, and raises `InputError` where nothing can
be done. A verb with several inputs goes on after one that fails, names it on stderr, writes the rest and returns
`exit_code(failed, total)`:

    failures = [...]  # one line for each input that could not be used
    return exit_code(len(failures), len(inputs))
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import NoReturn


class ExitCode(IntEnum):
    """What every verb of the command line ends with."""

    DONE = 0  # everything was done
    PARTIAL = 1  # some inputs failed or were damaged; the rest is done
    INVALID = 2  # wrong usage or input; nothing was done
    INTERRUPTED = 130  # by Ctrl-C; what was finished is kept
    CLOSED_PIPE = 141  # the reader of the output went away, as `| head` does


EXIT_CODES = (
    "exit codes: 0 all done; 1 some inputs failed or were damaged, the rest is done; 2 wrong usage or input, nothing "
    "done; 130 interrupted"
)


def exit_code(failed: int, total: int) -> ExitCode:
    """The exit code of a verb with several inputs.

    Args:
        failed: How many of the inputs failed or were damaged.
        total: How many inputs there were.

    Returns:
        DONE if none failed, INVALID if all did, else PARTIAL.
    """
    if failed <= 0:
        return ExitCode.DONE
    return ExitCode.PARTIAL if failed < total else ExitCode.INVALID


class InputError(ValueError):
    """Input from the user that cannot be used; the message names what, where, and what to do."""


class ArgumentError(InputError):
    """An argument that cannot be used, given to a function or as a flag.

    Args:
        text: The message, with names of arguments in braces: `{device}` reads `device` to the caller of a function, and
            `--device` in the command line (`with_flags`).
    """

    def __init__(self, text: str) -> None:
        super().__init__(re.sub(r"\{(\w+)\}", r"\1", text))
        self.with_flags = re.sub(r"\{(\w+)\}", r"--\1", text)


def printable(text: str) -> str:
    """Text with question marks for control characters, which a file's name may have and a terminal would act on."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def report(line: str) -> None:
    """Print a line for the user on stderr, below the results on stdout."""
    print(f"densevid: {printable(line)}", file=sys.stderr, flush=True)


def one_line(error: BaseException) -> str:
    """The text of an error on one line, for stderr."""
    return _folded(str(error)) or type(error).__name__


def named(name: str, error: BaseException) -> str:
    """The error of one of several inputs, on one line that begins with the name of the input, once."""
    text, known = _reason(error), _folded(name)
    return text if text.startswith(f"{known}: ") else f"{known}: {text}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's, a GPU's, or torch's own, which only the message of its error shows."""
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
    """Run the `main` of a module as a program; an InputError is one line on stderr and exit code 2."""
    try:
        raise SystemExit(main())
    except InputError as error:
        report(one_line(error))
        raise SystemExit(ExitCode.INVALID) from None
