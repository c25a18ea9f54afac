"""Progress in a notebook and on a terminal, for trainings that run outside of the lab."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from typing import Any

from dynascope.dynamics.monitor import Monitor, monitored_by
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import shown
from dynascope.lab.monitor import Part, Progress
from dynascope.lab.progress_line import Line, progress_line

EVERY = 0.2
"""Seconds between two updates of a notebook's cell."""
WIDTH = 80


def show_progress(name: str = "running") -> AbstractContextManager[None]:
    """Show the progress of every run inside the `with` block: below a notebook's cell, or on a terminal.

    A descent, a flow, an ensemble, `observe` and `torch.replay` report the share that is done and the time left. If the
    output is neither a notebook nor a terminal, nothing is shown.

    Args:
        name: The name at the beginning of the line.

    Returns:
        A context manager.
    """
    if not isinstance(name, str):
        raise UsageError(f"name must be a string; got {shown(name)}")
    return _showing(name)


@contextmanager
def _showing(name: str) -> Iterator[None]:
    display = _notebook_display()
    if display is not None:
        with _notebook_line(name, display) as on_progress, monitored_by(_Reporter(on_progress)):
            yield
        return
    with progress_line(name) as on_progress, monitored_by(_Reporter(on_progress)):
        yield


class _Reporter(Monitor):
    """Hands the progress of each run to a callback, if there is one."""

    def __init__(self, on_progress: Callable[[Progress], None] | None):
        self.on_progress, self.part = on_progress, Part()

    def progress(self, done: float, total: float, what: str) -> None:
        progress = self.part.report(done, total, what)
        if self.on_progress is not None:
            self.on_progress(progress if progress.part > 1 else progress._replace(part=0))


@contextmanager
def _notebook_line(name: str, display: Callable[..., Any]) -> Iterator[Callable[[Progress], None]]:
    """A callback that redraws one line below the cell; the line is removed at the end."""
    line = Line(name, None)
    handle = display(_as_html(line.text(0, WIDTH)), raw=True, display_id=True)
    shown = time.monotonic()

    def on_progress(progress: Progress) -> None:
        nonlocal shown
        line.latest, now = progress, time.monotonic()
        if now - shown >= EVERY:
            shown = now
            handle.update(_as_html(line.text(now - line.began, WIDTH)), raw=True)

    try:
        yield on_progress
    finally:
        handle.update({"text/plain": "", "text/html": ""}, raw=True)


def _as_html(text: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": f"<code>{escape(text)}</code>"}


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display`, if this process is the kernel of a notebook."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython  # pyright: ignore[reportMissingImports]
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    return display if getattr(get_ipython(), "kernel", None) is not None else None
