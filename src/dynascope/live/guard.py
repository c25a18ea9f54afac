"""The guard of the server: it answers only its own page, on this machine, and only with the token of the printed
address.

Any web page can send requests to a local port, and any domain name can resolve to this machine. So the host and the
origin must be the server's. The page and its scripts contain nothing secret; every other request carries the token in a
header. A cookie would not be safe: browsers send it to all ports of a host, and so to other servers on this machine.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 64 * 1024
"""The largest body of a request; a form has a few hundred bytes."""
BODY_SECONDS = 10.0
"""The time that each part of a body may take."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts come from the server only, and none is inline. Plotly sets styles of elements."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""The headers of every response that does not set them itself."""


class BadBody(Exception):
    """The body of a request is larger than allowed, or does not arrive; it has the text and the status of the
    response."""


class Guard:
    """Refuses requests that are not from the server's own page, and sets the headers of every response.

    Args:
        app: The application behind it.
        token: Required in the header `x-dynascope-token`, except for the page and its assets.
        port: The port of the server.
        on_use: Called for each request that has the token.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int, on_use: Callable[[], object] = lambda: None) -> None:
        self.app, self.token, self.on_use = app, token, on_use
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _with_headers(send)
        if refusal := self.refuse(Headers(scope=scope), scope["path"]):
            await refusal(scope, receive, answer)
            return
        seen, complete = 0, False

        async def limited() -> Message:
            nonlocal seen, complete
            try:
                message = await (receive() if complete else asyncio.wait_for(receive(), BODY_SECONDS))
            except TimeoutError:
                raise BadBody("the body did not arrive", 408) from None
            complete = not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > MOST_BYTES:
                raise BadBody("the body is too large", 413)
            return message

        try:
            await self.app(scope, limited, answer)
        except BadBody as problem:
            await PlainTextResponse(*problem.args)(scope, receive, answer)

    def refuse(self, headers: Headers, path: str) -> PlainTextResponse | None:
        """The response to a request that is not from the server's own page; None if it may pass."""
        if headers.get("host") not in self.hosts:
            return PlainTextResponse("this server answers on 127.0.0.1 only", 421)
        if (origin := headers.get("origin")) is not None and origin.removeprefix("http://") not in self.hosts:
            return PlainTextResponse("other pages may not use this server", 403)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > MOST_BYTES:
            return PlainTextResponse("the body is too large", 413)
        if path == "/" or path.startswith("/assets/"):
            return None
        given = headers.get("x-dynascope-token", "")
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            return PlainTextResponse("open the address that `dynascope live` printed: it contains the token", 403)
        self.on_use()
        return None


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent
