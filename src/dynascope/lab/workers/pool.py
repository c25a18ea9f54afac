"""Processes on this machine that execute calls. One that dies costs its own call, not the pool.

`concurrent.futures.ProcessPoolExecutor` ends as a whole when one of its processes is killed. Here each process has a
pipe and a thread of its own: the thread sends a call and waits for the answer. If the process dies instead, the thread
starts another one and repeats the call.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

from dynascope.lab.errors import ClusterLost, WorkerLost, one_line
from dynascope.lab.garbage import collect_rarely
from dynascope.lab.workers.calls import call, result_of
from dynascope.lab.workers.devices import take_share

RETRIES = 2
"""The number of retries of a call after the process that executed it has died."""

P = ParamSpec("P")
T = TypeVar("T")


class Pool(Executor):
    """`jobs` processes, each with cores (and GPUs, if there are any) of its own.

    A future ends with the result of its call or the exception that it raised, with `WorkerLost` if its process died at
    every attempt, or with `ClusterLost` if processes do not start at all.
    """

    def __init__(self, jobs: int):
        self._jobs = jobs
        self._calls: SimpleQueue[tuple[Future, Callable, tuple, dict] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: dict[int, _Worker] = {}
        self._changing = threading.RLock()
        self._closed = self._stopped = False
        self._broken: ClusterLost | None = None
        atexit.register(self.stop)  # a program that forgets the pool must not wait for it

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._changing:
            if self._closed:
                raise RuntimeError("cannot submit a call to a pool that is shut down")
            self._calls.put((future, fn, args, kwargs))
            if len(self._threads) < self._jobs:
                name = f"dynascope-worker-{len(self._threads)}"
                thread = threading.Thread(target=self._serve, args=(len(self._threads),), name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Execute all submitted calls (or only those in progress), then end the processes."""
        with self._changing:
            if cancel_futures:
                while not self._calls.empty():
                    item = self._calls.get()
                    if item is not None:
                        item[0].cancel()
            if not self._closed or cancel_futures:
                for _ in self._threads:
                    self._calls.put(None)
            self._closed = True
        if wait:
            for thread in self._threads:
                thread.join()
        atexit.unregister(self.stop)

    def stop(self) -> None:
        """End the processes now, whatever they are doing."""
        self._stopped = True
        self.shutdown(wait=False, cancel_futures=True)
        with self._changing:
            for worker in self._workers.values():
                worker.process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self, number: int) -> None:
        """The thread of one process: take calls and have them executed, until there are no more."""
        # A new process inherits blocked signals, so it receives Ctrl-C only once its handler is installed.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while (item := self._calls.get()) is not None:
            future, fn, args, kwargs = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                question = bytes(ForkingPickler.dumps((fn, args, kwargs)))
                future.set_result(result_of(self._answer(number, question)))
            except BaseException as error:
                future.set_exception(error)
        if worker := self._workers.get(number):
            worker.end()

    def _answer(self, number: int, question: bytes) -> bytes:
        """The answer to a call; a process that dies over it is replaced."""
        cause = ""
        for _ in range(1 + RETRIES):
            worker = self._workers.get(number) or self._start(number)
            try:
                return worker.ask(question)
            except (OSError, EOFError):
                del self._workers[number]
                cause = worker.cause()
        raise WorkerLost(f"its process died ({cause}), and again in all {RETRIES} retries")

    def _start(self, number: int) -> _Worker:
        """A new process. If three in a row die before they could do anything, this and all later calls fail."""
        cause = ""
        for _ in range(1 + RETRIES):
            with self._changing:
                if self._stopped:
                    raise ClusterLost("the processes were stopped")
                if self._broken:
                    raise self._broken
                try:
                    worker = self._workers[number] = _Worker(number, self._jobs)
                except (OSError, RuntimeError) as error:  # no memory; or a script that each process runs again
                    cause = one_line(error)
                    break
            if worker.ready():
                return worker
            del self._workers[number]
            cause = worker.cause()
        self._broken = ClusterLost(
            f'worker processes do not start ({cause}); a script must use them under `if __name__ == "__main__":`'
        )
        raise self._broken


class _Worker:
    """A process and the parent's end of its pipe."""

    def __init__(self, number: int, of: int):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, number, of), name=f"dynascope-worker-{number}")
        self.process.start()
        theirs.close()

    def ready(self) -> bool:
        """Wait for its first sign of life."""
        try:
            return self.pipe.recv_bytes() == b""
        except (OSError, EOFError):
            return False

    def ask(self, question: bytes) -> bytes:
        self.pipe.send_bytes(question)
        return self.pipe.recv_bytes()

    def cause(self) -> str:
        """Why the process died."""
        self.end()
        status = self.process.exitcode or 0
        if status >= 0:
            return f"exit status {status}"
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return f"{name}, perhaps for lack of memory" if name == "SIGKILL" else name

    def end(self) -> None:
        """Close the pipe, upon which the process ends, and wait for it."""
        self.pipe.close()
        self.process.join()


def _work(pipe: Connection, number: int, of: int) -> None:
    """The main loop of a process. Ctrl-C reaches it too; it ends without a message, and the parent prints one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    take_share(number, of)
    collect_rarely()
    pipe.send_bytes(b"")
    while True:
        try:
            question = pipe.recv_bytes()
        except EOFError:
            return
        pipe.send_bytes(call(question))


def _end_with_parent() -> None:
    """End the process when its parent dies: a killed parent cannot do it. It works in the middle of a run too."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
