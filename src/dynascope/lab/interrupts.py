"""Ctrl-C that is not lost: Python drops an interrupt that arrives inside a finalizer or a weak reference's callback."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def remembered_interrupts() -> Iterator[Callable[[], None]]:
    """An interrupt is raised where it arrives, as usual; the yielded function raises it again if it was lost.

    Where interrupts are ignored, or handled by another thread, the function does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None
        return
    came = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        before(number, frame)

    def raise_again() -> None:
        if came:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        yield raise_again
    finally:
        signal.signal(signal.SIGINT, before)
