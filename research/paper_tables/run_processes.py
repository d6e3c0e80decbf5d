"""Several pieces of work at a time, each in a process of its own: one that is killed takes no other with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import TypeVar

from densevid.errors import one_line

LONGEST = 2000  # characters of an answer: it must fit in a pipe that nobody reads until the process has ended
Item = TypeVar("Item")
Work = Callable[[Item], str | None]
Running = tuple[BaseProcess, Connection, Item]


def finished(work: Work[Item], items: Sequence[Item], at_once: int) -> Iterator[tuple[Item, str | None]]:
    """Each with what went wrong, as they finish; one at a time in this process, more in processes of their own."""
    if at_once == 1:
        for item in items:
            yield item, work(item)
        return
    waiting, running = list(reversed(items)), dict[int, Running[Item]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                process, answer, item = _started(work, waiting.pop())
                running[process.sentinel] = process, answer, item
            ended = set(wait(list(running)))
            for sentinel in [one for one in running if one in ended]:
                process, answer, item = running.pop(sentinel)
                yield item, _outcome(process, answer)
    finally:
        for process, _, _ in running.values():  # only where this was left early: interrupted, or by an error
            process.terminate()


def _started(work: Work[Item], item: Item) -> Running[Item]:
    spawn = multiprocessing.get_context("spawn")
    answer, told = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_run, args=(work, item, told, os.getpid()))  # no daemon: it may have workers
    process.start()
    told.close()
    return process, answer, item


def _run(work: Work[Item], item: Item, told: Connection, parent: int) -> None:
    end_with(parent)
    with suppress(KeyboardInterrupt):  # which the command that began this process tells of
        try:
            error = work(item)
        except Exception as failure:
            error = f"{type(failure).__name__}: {one_line(failure)}"
        told.send(None if error is None else error[:LONGEST])


def _outcome(process: BaseProcess, answer: Connection) -> str | None:
    """What it told, or how it died before it could."""
    process.join()
    with answer, suppress(EOFError):
        told: str | None = answer.recv()
        return told
    code = process.exitcode or 0
    if code < 0:
        often = ", as when memory runs out" if -code == signal.SIGKILL else ""
        return f"its process was killed by {signal.Signals(-code).name}{often}"
    return f"its process ended with code {code}"


def end_with(parent: int) -> None:
    """Let this process end soon after its parent: nobody could stop a run whose command was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
