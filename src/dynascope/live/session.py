"""The worker of a server and its current run: started, paused, stopped; a worker that dies is replaced."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import secrets
import signal
import threading
from contextlib import suppress
from typing import Any

from dynascope.lab.setting import Setting
from dynascope.live.events import Log
from dynascope.live.worker import PREPARE, work

STOP_SECONDS = 3.0
"""The time that a run has to stop by itself before its process is ended. Its checkpoints and finished steps stay."""
LOST = "The worker process died ({why}). Run it again to continue from the last checkpoint."


class Session:
    """One worker, one run at a time; pages follow its `log`. All methods are called on the server's event loop."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.log = Log(secrets.token_hex(4))
        self.busy = False
        self.paused = False
        self._number = 0
        self._context = multiprocessing.get_context("spawn")
        self._worker: _Worker | None = None
        self._turn = asyncio.Lock()
        self._ended = asyncio.Event()
        self._ended.set()

    def start(self) -> None:
        """Start the worker, so that it is warm when the first run is requested."""
        if self._worker is None:
            self._worker = _Worker(self._context, asyncio.get_running_loop(), self._heard, self._lost)

    async def run(self, setting: Setting, facts: dict[str, Any]) -> int:
        """Stop the current run, begin another one, and return its number. `facts` are sent to pages."""
        async with self._turn:
            await self._stop()
            self.start()
            assert self._worker is not None
            self._number += 1
            self.busy, self.paused = True, False
            self._ended.clear()
            self.log.begin(self._number)
            self.log.add(self._number, "begin", json.dumps({"number": self._number, **facts}))
            self._worker.going.set()
            self._worker.ask(self._number, setting, self.root)
            return self._number

    def prepare(self, setting: Setting) -> None:
        """Have an idle worker load what a run of this setting needs, while somebody looks at its page."""
        if self._worker and not self.busy:
            self._worker.ask(PREPARE, setting, self.root)

    async def stop(self) -> None:
        """Stop the current run, if there is one."""
        async with self._turn:
            await self._stop()

    def pause(self) -> None:
        """Pause the run."""
        if self._worker and self.busy:
            self.paused = True
            self._worker.going.clear()

    def resume(self) -> None:
        """Resume the run."""
        if self._worker:
            self.paused = False
            self._worker.going.set()

    async def close(self) -> None:
        """Stop the run, end the worker and the streams of events."""
        self.log.close()
        await self.stop()
        if self._worker:
            self._worker.end()
            self._worker = None

    async def _stop(self) -> None:
        if not self.busy or self._worker is None:
            return
        self._worker.interrupt()
        try:
            await asyncio.wait_for(self._ended.wait(), STOP_SECONDS)
        except TimeoutError:
            worker, self._worker = self._worker, None
            worker.end()
            self._end({"how": "stopped", "message": "Stopped. Run it again to continue from the last checkpoint."})
            self.start()

    def _heard(self, worker: _Worker, number: int, kind: str, text: str) -> None:
        if worker is self._worker and number == self._number and self.busy:
            if kind == "ended":
                self._end(json.loads(text))
            else:
                self.log.add(number, kind, text)

    def _lost(self, worker: _Worker, why: str) -> None:
        """Replace a worker that died by itself."""
        if worker is not self._worker:
            return
        self._worker = None
        if self.busy:
            self._end({"how": "lost", "message": LOST.format(why=why)})
            self.start()

    def _end(self, facts: dict[str, Any]) -> None:
        self.busy = self.paused = False
        self.log.add(self._number, "ended", json.dumps(facts))
        self._ended.set()


class _Worker:
    """A process, the server's end of its pipe, and the thread that listens to it."""

    def __init__(self, context: Any, loop: asyncio.AbstractEventLoop, heard: Any, lost: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.going = context.Event()
        self.going.set()
        self.process = context.Process(target=work, args=(theirs, self.going), name="dynascope-live", daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until it has installed its handler
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        threading.Thread(target=self._listen, args=(loop, heard, lost), daemon=True).start()

    def ask(self, number: int, setting: Setting, root: str) -> None:
        with suppress(OSError):  # it has just died, as the listening thread will report
            self.pipe.send((number, pickle.dumps(setting), root))

    def interrupt(self) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGINT)

    def end(self) -> None:
        self.process.kill()
        self.process.join()

    def _listen(self, loop: asyncio.AbstractEventLoop, heard: Any, lost: Any) -> None:
        try:
            while not loop.is_closed():
                loop.call_soon_threadsafe(heard, self, *self.pipe.recv())
        except (EOFError, OSError):
            self.process.join(5)
            with suppress(RuntimeError):  # the server is closing
                loop.call_soon_threadsafe(lost, self, f"exit status {self.process.exitcode}")
