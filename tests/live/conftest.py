"""What the tests of the live page share: a tiny experiment, a store with a run of it, and a client with the token."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest

from dynascope.lab.fields import build
from dynascope.lab.registry import load
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.live.server import app

TOKEN, PORT = "a-token-for-tests", 8123
ID = "tiny.spiral"


@contextmanager
def own_experiments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DYNASCOPE_EXPERIMENTS", str(Path(__file__).parent))
        yield


@pytest.fixture(scope="module", autouse=True)
def found_by_id():
    """The tiny experiment is found by its id, in these tests alone."""
    with own_experiments():
        yield


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with two runs and a sweep."""
    from dynascope.lab.sweeps import sweep

    store = Store(tmp_path_factory.mktemp("live") / "runs")
    with own_experiments():
        for changes in ({}, {"rate": 0.95}):
            run(build(load(ID), changes, "quick"), preset="quick", store=store)
        sweep(load(ID), {"rate": [0.9, 1.05, 1.1], "style": ["plain", "fancy"]}, preset="quick", seeds=2, store=store)
    return store


@pytest.fixture
def stored(filled: Store) -> StoredRun:
    """The latest of the two runs."""
    return filled.latest(ID)[0][ID]


class Client:
    """Requests with these headers. There is no worker."""

    def __init__(self, store: Store, **headers: str | bytes):
        self.transport = httpx.ASGITransport(app(store, token=TOKEN, port=PORT))
        self.headers = headers

    def get(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask("GET", path, **options))

    def post(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask("POST", path, **options))

    def status_and_body(self, path: str) -> tuple[int, bytes]:
        """The answer to a path exactly as it is given: other clients take `..` out of it first."""
        sent: list[dict[str, Any]] = []
        headers = {"host": f"127.0.0.1:{PORT}", **self.headers}
        scope = {
            "type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip

        async def call() -> None:
            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            await self.transport.app(scope, receive, send)

        asyncio.run(call())
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

    async def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        base = f"http://127.0.0.1:{PORT}"
        async with httpx.AsyncClient(transport=self.transport, base_url=base, headers=self.headers) as client:
            return await client.request(method, path, **options)


@pytest.fixture
def client(filled: Store) -> Client:
    """A client with the token."""
    return Client(filled, **{"x-dynascope-token": TOKEN})


@pytest.fixture
def stranger(filled: Store) -> Callable[..., Client]:
    """Makes clients that have the given headers only."""
    return lambda **headers: Client(filled, **headers)


class Server:
    """`dynascope live` in a process of its own."""

    def __init__(self, store: Store, *options: str, **variables: str):
        command = [sys.executable, "-m", "dynascope", "live", "--runs", str(store.root), *options]
        environment = {**os.environ, **variables}
        self.store = store
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.port = urlsplit(self.address).port
        self.token = self.address.partition("#token=")[2]

    @contextmanager
    def ask(self, path: str) -> Iterator[HTTPResponse]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET", path, headers={"x-dynascope-token": self.token})
            yield connection.getresponse()

    def status(self, path: str) -> int:
        with self.ask(path) as answer:
            return answer.status

    def end(self, sign: int = signal.SIGINT) -> str:
        """End it; what it has said but the address."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        return "".join(self.process.communicate(timeout=60))


@pytest.fixture(scope="module")
def start(found_by_id: None) -> Iterator[Callable[..., Server]]:
    """Starts servers, which end with the tests of the file."""
    servers: list[Server] = []

    def started(store: Store, *options: str, **variables: str) -> Server:
        servers.append(Server(store, *options, **variables))
        return servers[-1]

    yield started
    for server in servers:
        if server.process.stdout and not server.process.stdout.closed:
            server.end()
