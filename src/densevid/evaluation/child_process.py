"""A helper program that this process talks to over its standard input and output, and that can die at any time."""

from __future__ import annotations

import atexit
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import IO

from densevid.errors import InputError


class ChildProcess:
    """A program started at once and ended by `close`, at the latest when this process ends."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=self._complaints,
                env=None if environment is None else {**environment},
            )
        except OSError as error:
            raise InputError(f"{name} cannot be started: {command[0]}: {error.strerror}") from error
        atexit.register(self.close)

    @property
    def answers(self) -> IO[bytes]:
        """What the program writes."""
        assert self._process.stdout is not None
        return self._process.stdout

    def send(self, message: bytes, *, last: bool = False) -> None:
        """Write without waiting for it to be read; `last` closes the input, for programs that answer at its end."""
        Thread(target=self._write, args=(message, last), daemon=True).start()

    def exit_code(self) -> int:
        """Wait for the program to end by itself."""
        return self._process.wait()

    def failure(self, what: str) -> InputError:
        """An error that says what went wrong and the program's own last words."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._complaints.seek(0)
        text = self._complaints.read().decode("utf-8", "replace").strip()
        reason = text.splitlines()[-1][:200] if text else f"exit code {self._process.poll()}"
        return InputError(f"{self.name} {what}: {reason}")

    def close(self) -> None:
        """End the program."""
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                with suppress(OSError, ValueError):  # what was still to be written has no reader any more
                    stream.close()

    def _write(self, message: bytes, last: bool) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # the program is gone; whoever reads sees that answers are missing
            self._process.stdin.write(message)
            self._process.stdin.flush()
            if last:
                self._process.stdin.close()
