"""The server hands its address over without showing the token, drops connections that say nothing, and ends cleanly."""

from __future__ import annotations

import signal
import socket
import stat
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import uvicorn

from dynascope.lab.store import Store
from dynascope.live import serving


def until(true, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def command_lines() -> list[bytes]:
    """The command lines of all processes, as any user can read them."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes())
        except OSError:  # it has ended
            continue
    return lines


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc on this machine")
def test_the_token_is_on_no_command_line_and_the_browser_gets_it_from_a_file(start, tmp_path):
    browser, opened, closed = (tmp_path / name for name in ("browser.py", "opened", "closed"))
    browser.write_text(
        "import pathlib, sys, time\n"
        f"opened, closed = pathlib.Path({str(opened)!r}), pathlib.Path({str(closed)!r})\n"
        "opened.with_suffix('.part').write_text(sys.argv[1])\n"
        "opened.with_suffix('.part').rename(opened)\n"
        "while not closed.exists():\n"
        "    time.sleep(0.05)\n"
    )
    server = start(Store(tmp_path / "runs"), "--open", BROWSER=f"{sys.executable} {browser} %s")
    until(opened.exists)
    lines = command_lines()
    address = opened.read_text()
    assert any(address.encode() in line for line in lines), "the browser runs, with the address that it was given"
    assert len(server.token) > 20
    assert not any(server.token.encode() in line for line in lines)

    page = Path(unquote(urlsplit(address).path))
    assert f"url={server.address}" in page.read_text(), "which leads to the printed address"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700

    assert server.status("/") == 200
    assert page.exists()
    assert server.status("/api/experiments") == 200
    assert not page.exists(), "it is gone when the token has been used"
    closed.touch()
    server.end()
    assert not page.parent.exists()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_ended_ends_its_streams_and_leaves_nothing(start, tmp_path, sign):
    server = start(Store(tmp_path / "runs"))
    with server.ask("/api/events") as stream:
        assert stream.status == 200
        assert server.end(sign) == "dynascope: Ctrl-C ends it\n"
        assert stream.read().startswith(b"event: hello")
    assert server.process.returncode == 0


@pytest.fixture
def connect(monkeypatch):
    """Connects to a server that answers everything, and waits only briefly for headers."""
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.3)

    async def answer(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    server = uvicorn.Server(uvicorn.Config(answer, http=serving._Connection, lifespan="off", log_level="error"))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield lambda: socket.create_connection(listening.getsockname(), timeout=10)
    server.should_exit = True
    thread.join()


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it, within the timeout of the connection."""
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 1000])
def test_a_connection_whose_headers_never_end_is_dropped(connect, sent):
    with connect() as connection:
        connection.sendall(sent)
        assert is_closed(connection)


def test_a_connection_that_sends_its_headers_slowly_is_dropped_too(connect):
    with connect() as connection:
        for _ in range(4):
            connection.sendall(b"x")
            time.sleep(0.05)
        began = time.monotonic()
        assert is_closed(connection)
        assert time.monotonic() - began < 3


def test_a_connection_can_be_used_again_but_not_held(connect):
    with connect() as connection:
        for _ in range(2):
            connection.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
            time.sleep(0.5)
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert is_closed(connection)
