"""The server answers only its own page, on this machine, with the token of the printed address.

Any web page can send requests to a local port, and any domain name can resolve to this machine. So the host and the
origin must be the server's, and each request carries the token, in a cookie that only the server's own pages send.
"""

from __future__ import annotations

import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 64 * 1024
"""The largest body of a request; a form has a few hundred bytes."""
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
"""Those of every answer that does not set them itself."""


class TooLarge(Exception):
    """The body of a request is larger than allowed."""


class Guard:
    """Refuses requests that are not from the server's own page, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.cookie = f"dynascope-{port}"
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        first_load = scope["path"] == "/" and scope["method"] == "GET"
        asked = request.query_params.get("token", "") if first_load else ""
        answer = self._with_headers(send, self.same(asked))
        if refusal := self.refuse(request, asked):
            await refusal(scope, receive, answer)
            return
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > MOST_BYTES:
                raise TooLarge
            return message

        try:
            await self.app(scope, limited, answer)
        except TooLarge:
            await PlainTextResponse("the body is too large", 413)(scope, receive, answer)

    def refuse(self, request: HTTPConnection, asked: str) -> PlainTextResponse | None:
        """The answer to a request that is not from the server's own page; None if it may pass."""
        headers = request.headers
        if headers.get("host") not in self.hosts:
            return PlainTextResponse("this server answers on 127.0.0.1 only", 421)
        origin = headers.get("origin")
        foreign = origin is not None and origin.removeprefix("http://") not in self.hosts
        if foreign or (headers.get("sec-fetch-site", "same-origin") == "cross-site" and not self.same(asked)):
            return PlainTextResponse("other pages may not use this server", 403)
        if request.scope["method"] not in ("GET", "HEAD") and origin is None and "x-dynascope-token" not in headers:
            return PlainTextResponse("a request that changes something needs an origin", 403)
        tokens = (asked, headers.get("x-dynascope-token", ""), request.cookies.get(self.cookie, ""))
        if not any(map(self.same, tokens)):
            return PlainTextResponse("open the address that `dynascope live` printed: it contains the token", 403)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return PlainTextResponse("the body is too large", 413)
        return None

    def same(self, given: str) -> bool:
        """Whether it is the token, compared in constant time."""
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def _with_headers(self, send: Send, first_load: bool) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if first_load:
                    headers.append("set-cookie", f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/")
            await send(message)

        return sent
