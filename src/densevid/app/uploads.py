"""The body of a request becomes a file: block by block, within the limits, and never whole in memory.

The body is the video itself, or an HTML form with the video in it; the file name of a form is only displayed.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from densevid.app.settings import MEGABYTE, Limits

RAW_TYPES = ("video/", "application/octet-stream", "application/ogg", "application/mp4", "image/gif")
FORM_OVERHEAD = 64 << 10  # boundaries and headers around a file


class Refused(Exception):
    """A request that gets no job: the status it is answered with, and why, in one line."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def check_headers(request: Request, limits: Limits) -> int:
    """Refuse what the headers alone show to be wrong, before a byte of the body is read; else give its length, or 0."""
    kind = request.headers.get("content-type", "").lower()
    if kind and not kind.startswith((*RAW_TYPES, "multipart/form-data")):
        raise Refused(415, f"the body must be a video or a form with one, not {kind[:80]}; set its Content-Type")
    try:
        announced = int(request.headers.get("content-length", "0"))
    except ValueError:
        raise Refused(400, "the Content-Length is not a number") from None
    if announced > limits.upload_bytes + FORM_OVERHEAD:
        raise too_large(limits)
    return announced


def check_free_space(free: int, limits: Limits) -> None:
    """Refuse what would leave less than the reserve; `free` is what all uploads under way leave."""
    if free < limits.disk_reserve:
        raise no_room()


async def save_body(request: Request, path: Path, limits: Limits) -> tuple[str, int]:
    """Write the video in a request's body to `path`; give the name it came with and its size."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    form = FormFile(options.get(b"boundary", b"")) if kind == b"multipart/form-data" else None
    size = 0
    try:
        with path.open("xb") as file:
            async for block in _blocks(request, limits):
                video = form.feed(block) if form else block
                size += len(video)
                if size > limits.upload_bytes:
                    raise too_large(limits)
                await _write(file, video)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_room() from error
        raise
    if form:
        form.check_complete()
    if size == 0:
        raise Refused(400, "the file is empty")
    return request.query_params.get("name") or (form.name if form else ""), size


def too_large(limits: Limits) -> Refused:
    """The refusal of a file beyond the limit."""
    return Refused(413, f"the file is larger than the limit of {limits.upload_bytes / MEGABYTE:,.0f} MB")


def no_room() -> Refused:
    """The refusal of a file that the disk cannot hold."""
    return Refused(507, "the disk is too full for more videos; delete some jobs or try later")


async def _blocks(request: Request, limits: Limits) -> AsyncIterator[bytes]:
    """The body as it comes; a sender that falls silent, or takes for ever, is given up."""
    stream = request.stream()
    end = time.monotonic() + limits.upload_seconds
    while True:
        try:
            async with asyncio.timeout(min(limits.silence_seconds, end - time.monotonic())):
                block = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(408, "the upload was too slow and was stopped") from None
        if block:
            yield block


async def _write(file: BinaryIO, block: bytes) -> None:
    await asyncio.to_thread(file.write, block)  # a slow disk keeps nobody else waiting


class FormFile:
    """The first file of an HTML form, taken out of it as it comes."""

    def __init__(self, boundary: bytes) -> None:
        if not boundary:
            raise Refused(400, "the form has no boundary in its Content-Type")
        self.name = ""
        self._field, self._value, self._disposition = b"", b"", b""
        self._found = self._inside = self._ended = False
        self._video: list[bytes] = []
        self._parser = MultipartParser(
            boundary,
            {
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
        )

    def feed(self, block: bytes) -> bytes:
        """Take in a block of the form; give what it holds of the file."""
        self._video.clear()
        try:
            self._parser.write(block)
        except FormParserError as error:
            raise Refused(400, "the form is not well-formed multipart/form-data") from error
        return b"".join(self._video)

    def check_complete(self) -> None:
        """Refuse a form that ends too early or has no file."""
        if not self._ended:
            raise Refused(400, "the form ends in the middle")
        if not self._found:
            raise Refused(400, "the form has no file in it")

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = self._value
        self._field = self._value = b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._disposition = b""
        if b"filename" in options and not self._found:
            self._found = self._inside = True
            self.name = options[b"filename"].decode("utf-8", "replace")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._video.append(data[start:end])

    def _part_end(self) -> None:
        self._inside = False

    def _end(self) -> None:
        self._ended = True
