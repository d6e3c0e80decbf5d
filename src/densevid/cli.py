"""The `densevid` command: a table of verbs. Only the chosen verb's module is imported, so every verb starts fast.

Exit codes of all verbs, as `errors.ExitCode` names them:

    0    all done
    1    some inputs failed or were damaged; the rest is done
    2    wrong usage or input; nothing was done (one line on stderr has the reason)
    130  interrupted; what was finished is kept
    141  the reader of the output went away
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import densevid
from densevid.errors import EXIT_CODES, ArgumentError, ExitCode, InputError, one_line, printable
from densevid.legacy import RENAMED_VERBS, current_verb, forget_reports

VERBS: dict[str, str] = {
    "caption": "find and describe the events of a video; write a timeline page and subtitles",
    "serve": "a page to drop videos on, and an HTTP API",
    "doctor": "what is installed here: versions, backbones, extras, device",
    "models": "list the models that are installed, with their scores",
    "extract": "turn videos into feature tracks, in a feature store",
    "timelines": "compose untrimmed videos with dense captions from captioned clips",
    "train": "train a model on annotated features, on one GPU or many",
    "predict": "caption every video of a feature folder and write an event file",
    "fit-priors": "fit a model's word prior and actionness to its training data",
    "calibrate": "fit a model's confidence in its events, for summaries",
    "evaluate": "score an event file by every official protocol",
    "import-released": "turn the authors' released weights into a model folder",
    "reproduce": "fill the tables of the paper: train, predict and score every row",
    "bench": "time ours against the plain way, in one run",
}

EXTRAS = {
    **{"h5py": "hdf5", "matplotlib": "plot", "pycocoevalcap": "eval"},
    **{"python_multipart": "app", "starlette": "app", "uvicorn": "app"},
}
RESUMABLE_VERBS = {"caption"}  # given again, they continue without a flag

# OpenMP reads this when torch is loaded, so it is set before any verb is imported. Threads that wait for work in a busy
# loop take the cores from those that have work; on a busy machine a command then takes several times as long.
OPENMP = {"OMP_WAIT_POLICY": "PASSIVE"}


class OneLineParser(argparse.ArgumentParser):
    """Reports wrong usage on one line, as every other error; the parsers of the verbs are of this class, too."""

    words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Keep the words for the error message, and parse them."""
        self.words = list(args or ())
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, but for unknown flags of a verb the line points at the help of that verb."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            verb = getattr(parsed, "verb", "")
            self.prog = f"{self.prog} {verb}".strip()
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed

    def error(self, message: str) -> NoReturn:
        """Exit with one line: what is wrong, and where the help is."""
        files = [word for word in self.words if word.startswith("-") and os.path.isfile(word)]  # noqa: PTH113
        hint = f"; for the file {files[0]} write ./{files[0]}" if files else ""
        line = printable(" ".join(message.split()) + hint)
        self.exit(ExitCode.INVALID, f"densevid: {line} (see `{self.prog} --help`)\n")


class Stopped(KeyboardInterrupt):
    """A signal ends the process: `kill`, or its terminal was closed."""

    def __init__(self, number: int) -> None:
        self.number = number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        arguments: The words after `densevid`; by default those of this process.

    Returns:
        An `ExitCode`.
    """
    for variable, value in OPENMP.items():
        os.environ.setdefault(variable, value)
    _replace_unprintable()
    words = list(sys.argv[1:] if arguments is None else arguments)
    verb = next((word for word in words if not word.startswith("-")), None)
    forget_reports()
    if verb in RENAMED_VERBS:
        words[words.index(verb)] = verb = current_verb(verb)

    def run_verb() -> int:
        parsed = build_parser(verb).parse_args(words)
        return int(parsed.run(parsed) or ExitCode.DONE)

    return _exit_code_of(run_verb, "; give the same command again to go on" if verb in RESUMABLE_VERBS else "")


def run_program(
    program: str,
    description: str | None,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int | None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a module outside the package, such as `python -m benchmarks.train`, with the errors and exit codes of a verb.

    Args:
        program: How it is called; shown in its usage line.
        description: The text of its `--help`.
        add_arguments: Declares its flags.
        run: Does the work; raises `InputError` for what a user got wrong.
        arguments: The words after `program`; by default those of this process.

    Returns:
        An `ExitCode`.
    """
    parser = OneLineParser(prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    words = sys.argv[1:] if arguments is None else arguments
    return _exit_code_of(lambda: int(run(parser.parse_args(words)) or ExitCode.DONE))


def _exit_code_of(work: Callable[[], int], advice: str = "") -> int:
    """Do the work; a user's mistake is one line on stderr. `advice` ends the line of an interruption."""
    try:
        with _stops_in_order():
            return work()
    except ArgumentError as error:
        return _fail(error.with_flags)
    except InputError as error:
        return _fail(one_line(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        wanted = f"densevid[{EXTRAS[package]}]" if package in EXTRAS else package
        return _fail(f"this needs the package {package}; install it with `pip install '{wanted}'`")
    except OSError as error:
        return ExitCode.CLOSED_PIPE if _is_closed_pipe(error) else _fail(one_line(error))
    except Stopped as stop:
        with suppress(OSError):
            sys.stdout.flush()
        os.kill(os.getpid(), stop.number)  # so that the parent sees which signal ended it
        return 128 + stop.number
    except KeyboardInterrupt:
        print(f"densevid: interrupted; what was finished is kept{advice}", file=sys.stderr)
        return ExitCode.INTERRUPTED


@contextmanager
def _stops_in_order() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that no half-written file stays behind.

    A second signal ends the process at once, forked children end as always, and one that is ignored (nohup) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    here = os.getpid()

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() == here:
            raise Stopped(number)
        os.kill(os.getpid(), number)

    ends = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP"))
    taken = [number for number in ends if number is not None and signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _replace_unprintable() -> None:
    """Print question marks for letters that the terminal does not have, instead of failing."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def build_parser(verb: str | None) -> argparse.ArgumentParser:
    """The whole command line, with the arguments of `verb` alone filled in."""
    parser = OneLineParser(
        prog="densevid",
        description="Turn an untrimmed video into a timeline of events, each with a sentence; train and evaluate it.",
        epilog=f"`densevid VERB --help` explains one verb, with examples; {EXIT_CODES}.",
    )
    parser.add_argument("--version", action="version", version=f"densevid {densevid.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, summary in VERBS.items():
        module = import_module(f"densevid.commands.{name.replace('-', '_')}") if name == verb else None
        sub = verbs.add_parser(
            name,
            help=summary,
            description=module.__doc__ if module else summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if module:
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def _is_closed_pipe(error: OSError) -> bool:
    """Whether stdout was closed by its reader, and not a pipe of our own; the rest of the output is dropped."""
    if not isinstance(error, BrokenPipeError):
        return False
    try:
        print(flush=True)
        return False
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
        return True


def _fail(message: str) -> ExitCode:
    try:
        print(f"densevid: {printable(message)}", file=sys.stderr)
    except BrokenPipeError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    return ExitCode.INVALID
