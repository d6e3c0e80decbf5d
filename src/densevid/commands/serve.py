"""Serve a page on which videos are dropped and become timelines, and a small HTTP API for programs.

The page is at http://127.0.0.1:8000 until another port is given, the API is explained at /api. Only this machine can
reach it unless --host is given. Videos wait in a queue and are captioned one after another; a job outlives a
restart of the server, and is removed some time after it is finished.

Examples:
  densevid serve
  densevid serve --port 9000 --open --model runs/mine
  densevid serve --fast                                    (without actions; a visitor may ask for them all the same)
  densevid serve --all-words                               (full guesses where a sentence is not sure)
  densevid serve --workers 2 --max-megabytes 500 --max-minutes 30
  densevid serve --host 0.0.0.0 --allow-host captions.example.org        (everyone in reach may use it: no passwords)
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from densevid.errors import InputError

if TYPE_CHECKING:
    from densevid.app.settings import Limits, Settings

SECONDS_TO_FINISH_ANSWERS = 5
MOST_CONNECTIONS = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `densevid serve`."""
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="port to listen at, 0 for any (8000)")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="a name this server goes by")
    parser.add_argument("--model", metavar="M", help="model to caption with, as `densevid caption --model` takes it")
    parser.add_argument("--all-words", action="store_true", help="full guesses, where a visitor does not choose")
    parser.add_argument("--fast", action="store_true", help="leave out actions, where a visitor does not choose")
    parser.add_argument("--work", metavar="DIR", help="folder for uploads and results (in the user's cache)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="videos captioned at a time (1)")
    parser.add_argument("--max-waiting", type=int, default=32, metavar="N", help="videos that may wait (32)")
    parser.add_argument("--max-megabytes", type=float, default=2048, metavar="MB", help="of one file (2048)")
    parser.add_argument("--max-pixels", type=int, default=4096 * 2304, metavar="N", help="of one picture (9437184: 4K)")
    parser.add_argument("--max-minutes", type=float, default=120, metavar="MIN", help="of one video (120)")
    parser.add_argument("--job-minutes", type=float, default=30, metavar="MIN", help="of work on one video (30)")
    parser.add_argument("--keep-hours", type=float, default=24, metavar="H", help="a finished job is kept (24)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    import starlette  # noqa: F401  # an error before anything is started
    import uvicorn  # noqa: F401

    from densevid.app.settings import Choices, Settings, caption_command
    from densevid.pipeline.model_registry import find_model

    if os.name != "posix":
        raise InputError("`densevid serve` needs Linux or macOS: it ends a job by its group of processes")
    find_model(args.model)  # a missing model is an error now, not of every job
    limits = _limits(args)
    listening = _listen(args.host, args.port)
    with listening:
        port = listening.getsockname()[1]
        folder = Path(args.work) if args.work else default_folder(port)
        model = _model_from_anywhere(args.model)
        choices = Choices(args.all_words, args.fast)
        settings = Settings(folder.absolute(), limits, caption_command(model), choices)
        asyncio.run(_serve(settings, listening, args))
    print("densevid: stopped; unfinished videos are taken up at the next start", file=sys.stderr)
    return 0


async def _serve(settings: Settings, listening: socket.socket, args: argparse.Namespace) -> None:
    import uvicorn

    from densevid.app.jobs import Jobs
    from densevid.app.server import create_app

    async with Jobs(settings) as jobs:
        config = uvicorn.Config(
            create_app(jobs, args.host, args.allow_host),
            lifespan="off",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # or anyone on this machine could forge where a request comes from
            timeout_graceful_shutdown=SECONDS_TO_FINISH_ANSWERS,
            limit_concurrency=MOST_CONNECTIONS,
        )
        server = uvicorn.Server(config)
        logging.getLogger("uvicorn.error").addFilter(_is_worth_telling)
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises what it got again when it is done: not fatal
            signal.signal(number, server.handle_exit)
        announce(listening, args)
        await server.serve(sockets=[listening])


def _is_worth_telling(record: logging.LogRecord) -> bool:
    """A browser that keeps a video open when the server stops is no error."""
    return "graceful shutdown" not in record.getMessage()


def announce(listening: socket.socket, args: argparse.Namespace) -> None:
    """Print the address of the app, with a warning where other machines can reach it."""
    from densevid.app.guard import is_loopback

    shown = f"[{args.host}]" if ":" in args.host else args.host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    if not is_loopback(args.host):
        print(
            f"densevid: warning: {args.host} can be reached from other machines, and there are no passwords: "
            "everyone in reach may upload videos",
            file=sys.stderr,
        )
    print(f"densevid is at {address} (API: {address}/api); Ctrl-C stops it", flush=True)
    if args.open:
        import webbrowser

        webbrowser.open(address)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: must be from 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror  # a name has errors of its own
        raise InputError(f"cannot listen at {host} port {port} ({reason}); choose with --host, --port") from None


def _limits(args: argparse.Namespace) -> Limits:
    from densevid.app.settings import MEGABYTE, Limits

    names = ("workers", "max_waiting", "max_megabytes", "max_pixels", "max_minutes", "job_minutes", "keep_hours")
    for name in names:
        if not getattr(args, name) > 0:
            raise InputError(f"--{name.replace('_', '-')} must be greater than 0, got {getattr(args, name)}")
    return Limits(
        upload_bytes=int(args.max_megabytes * MEGABYTE),
        pixels=args.max_pixels,
        seconds=args.max_minutes * 60,
        job_seconds=args.job_minutes * 60,
        waiting=args.max_waiting,
        workers=args.workers,
        keep_seconds=args.keep_hours * 3600,
    )


def _model_from_anywhere(model: str | None) -> str | None:
    """A model folder by its full path, since jobs may run elsewhere; a name stays a name."""
    return str(Path(model).absolute()) if model and Path(model).exists() else model


def default_folder(port: int) -> Path:
    """One folder per port in the user's cache, so that a restart finds its jobs."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "densevid" / "serve" / str(port)
