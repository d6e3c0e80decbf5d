"""Answers in one line of JSON to requests that are refused or fail, so that whoever sent them gets to read it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

LINGER_SECONDS = 30.0


class LingeringResponse(JSONResponse):
    """An answer to a client that may still be sending: what it sends is read and dropped for a while, because a
    connection that is closed in its face would take the answer with it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once, then let the client finish."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while (await receive()).get("more_body", False):
                    pass
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b""})


def error_answer(method: str, status: int, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """What went wrong, in one line; whoever posts may still be sending."""
    if method != "POST":
        return JSONResponse({"error": reason}, status, headers)
    return LingeringResponse({"error": reason}, status, {**(headers or {}), "connection": "close"})
