"""A real server on a loopback port, in a thread of the test, over a queue with any command."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from densevid.app.jobs import Jobs
from densevid.app.server import create_app
from densevid.app.settings import Settings
from helpers.waiting import LIMIT_SECONDS, end

HELD = Path(__file__).parent / "held"


@dataclass
class Answer:
    """The server's answer to one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    """A server that answers."""

    port: int
    jobs: Jobs
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_SECONDS)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@contextmanager
def running(settings: Settings, **options: Any) -> Iterator[Running]:
    """Serve until the block ends; then everything is stopped as at an interrupt."""
    ready: list[tuple[Jobs, uvicorn.Server]] = []
    started = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    async def serve() -> None:
        async with Jobs(settings) as jobs:
            config = uvicorn.Config(create_app(jobs, **options), lifespan="off", log_level="warning", ws="none")
            config.timeout_graceful_shutdown = 2
            server = uvicorn.Server(config)
            ready.append((jobs, server))
            started.set()
            await server.serve(sockets=[listening])

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(LIMIT_SECONDS), "the server did not start"
    jobs, server = ready[0]
    try:
        yield Running(listening.getsockname()[1], jobs)
    finally:
        server.should_exit = True
        thread.join(LIMIT_SECONDS)
        listening.close()
        assert not thread.is_alive(), "the server did not stop"


@contextmanager
def served(
    work: Path, *flags: str, port: int = 0, hold_until: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`densevid serve` as a user starts it; its address and its process.

    With `hold_until` no captioning begins before that file is there, so that a test can rely on a job that runs.
    """
    command = [sys.executable, "-m", "densevid", "serve", "--port", str(port), "--work", str(work), *flags]
    path = os.pathsep.join(filter(None, (str(HELD), os.environ.get("PYTHONPATH"))))
    held = {} if hold_until is None else {"PYTHONPATH": path, "DENSEVID_TEST_GO": str(hold_until)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **held}) as process:
        try:
            assert process.stdout
            address = re.search(r"http://\S+", process.stdout.readline())
            assert address, "it did not start"
            yield address[0], process
        finally:
            end(process)


def unused_port() -> int:
    """A port below those that systems hand out by themselves, so that it stays free between two servers of a test."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")
