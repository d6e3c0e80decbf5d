"""Checks of every request before it is handled, headers of every answer, and errors as one line of JSON.

A page of another site can make a visitor's browser send requests to a local server. It cannot read the answers, unless
its name resolves to this machine (DNS rebinding), so the Host must be ours; and it must not write, so a request that
changes something must come from our page or from no page at all.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Answer with one line; a client that posts may still be sending, so its connection lingers."""
    if method != "POST":
        return JSONResponse({"error": reason}, status, headers)
    return LingeringResponse({"error": reason}, status, {**(headers or {}), "connection": "close"})


HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
READING = {"GET", "HEAD", "OPTIONS"}
OUR_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A timeline page holds its script and its style itself, and a policy of its own that knows both by their hashes;
# where there are two, a browser obeys both.
TIMELINE = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "media-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "content-security-policy": OUR_PAGE,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", names: Iterable[str] = ()) -> None:
        self._app = app
        self._open_to_others = not is_loopback(host)
        self._names = {"localhost", host.lower(), *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request or pass it on, and complete the headers of what is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        status, reason = self.refusal(scope["method"], Headers(scope=scope))
        if status:
            await error_answer(scope["method"], status, reason)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def refusal(self, method: str, headers: Headers) -> tuple[int, str]:
        """The status and the reason with which a request is refused; 0 if it is not."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return 421, "this server does not go by that name; start it with --allow-host NAME if it should"
        if method in READING:
            return 0, ""
        origin = headers.get("origin")
        from_elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if from_elsewhere or (origin is not None and _site(origin) != host.lower()):
            return 403, "a page of another site must not do this"
        return 0, ""

    def _is_ours(self, host: str) -> bool:
        """Names only if we know them; addresses too if others may reach us, since nobody can redirect an address."""
        whole = HOST.fullmatch(host)  # the whole header: what only begins with an address may belong to anybody
        if whole is None:
            return False
        name = (whole["address"] or whole["name"]).lower()
        return name in self._names or is_loopback(name) or (self._open_to_others and _address(name) is not None)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _site(origin: str) -> str | None:
    """The name and port of an origin; None if it is not one."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
