"""What the tests of workers have them do. Files tell the test how far a worker is, and the worker when to go on."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path


def until(happened, seconds: float = 300.0):
    """Wait for something, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found


def attempt(folder: Path) -> int:
    """Count this attempt, as a file."""
    number = len(list(folder.glob("attempt-*"))) + 1
    (folder / f"attempt-{number}").touch()
    return number


def fail(folder: Path) -> None:
    raise ValueError(f"attempt {attempt(folder)}")


def die(folder: Path, times: int) -> int:
    """Killed at the first attempts; the number of the one that was not."""
    number = attempt(folder)
    if number <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def swallow(folder: Path, gibibytes: float) -> None:
    """Take more and more memory."""
    attempt(folder)
    held = []
    for _ in range(int(gibibytes * 32)):
        held.append(b"\1" * 2**25)
        time.sleep(0.02)


def linger(folder: Path) -> int:
    """Hold a lock, which ends with the process, and wait for a file to appear; the number of attempts."""
    number = attempt(folder)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (folder / "holding").touch()
        until((folder / "go").exists)
    return number


def is_free(lock: Path) -> bool:
    """Whether nobody holds it."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def share(folder: Path, count: int) -> tuple[str | None, str | None, int]:
    """Meet the other workers, so that each answers once: the device, the share of its memory, the number of cores."""
    (folder / str(os.getpid())).touch()
    until(lambda: len(list(folder.iterdir())) == count)
    environ = os.environ.get
    return environ("CUDA_VISIBLE_DEVICES"), environ("XLA_PYTHON_CLIENT_MEM_FRACTION"), len(os.sched_getaffinity(0))


class Stubborn(Exception):
    """It cannot be read back where it is sent."""

    def __init__(self, one: str, two: str):
        super().__init__(one + two)


def stubborn() -> None:
    raise Stubborn("can", "not")


def unsendable():
    return lambda: None
