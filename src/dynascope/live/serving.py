"""Serving of the live page until Ctrl-C or a signal, and passing its address to the browser."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dynascope.lab.store import Store
from dynascope.live.server import app

HEADER_SECONDS = 10.0
"""The time that a connection may take to send the headers of a request."""


def serve(
    listening: socket.socket, store: Store, *, open_page: bool = False, say: Callable[[str], object] = print
) -> None:
    """Serve the page until Ctrl-C or SIGTERM.

    Args:
        listening: A socket that listens on this machine.
        store: The store whose runs are shown, and that new runs go to.
        open_page: Whether to open the page in the browser.
        say: Called with the line that follows the printed address.
    """
    token, port = secrets.token_urlsafe(24), listening.getsockname()[1]
    address = f"http://127.0.0.1:{port}/#token={token}"  # a browser sends nothing that follows the '#'
    print(address, flush=True)
    say("Ctrl-C ends it")
    with _leading_page(address) if open_page else nullcontext() as page:
        application = app(store, token=token, port=port, on_use=lambda: page and page.unlink(missing_ok=True))
        options = {"http": _Connection, "ws": "none", "lifespan": "on", "timeout_graceful_shutdown": 1}
        quiet = {"log_level": "warning", "server_header": False, "proxy_headers": False}
        server = _Server(uvicorn.Config(application, **options, **quiet))  # pyright: ignore
        if page:  # in a thread: some browsers return when they are closed
            threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])


@contextmanager
def _leading_page(address: str) -> Iterator[Path]:
    """A file that redirects a browser to the address and is readable only by this user.

    All users of a machine can see the command line of a browser, so it must not contain the token.
    """
    with TemporaryDirectory(prefix="dynascope-live-") as folder:  # its mode is 0700
        page = Path(folder) / "open.html"
        page.touch(0o600)
        page.write_text(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">')
        yield page


class _Server(uvicorn.Server):
    """A server that first closes its session, so that the streams of events end, and then returns.

    Uvicorn re-raises the signal that ended it; SIGTERM would end the process at once and leave semaphores behind.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.config.app.state.close()  # pyright: ignore
        await super().shutdown(sockets)


class _Connection(H11Protocol):
    """A connection that is closed if the headers of a request do not arrive in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: object) -> None:
        super().connection_made(transport)  # pyright: ignore
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline:
            self._deadline.cancel()

    def _wait(self) -> None:
        """Set the deadline, or cancel it if the headers have arrived."""
        if self.conn.their_state is h11.IDLE:
            self._deadline = self._deadline or self.loop.call_later(HEADER_SECONDS, self.transport.abort)
        elif self._deadline:
            self._deadline.cancel()
            self._deadline = None
