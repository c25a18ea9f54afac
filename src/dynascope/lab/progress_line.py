"""The line on a terminal that shows the progress of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.text import Text

from dynascope.lab import formatting
from dynascope.lab.terminal import console

if TYPE_CHECKING:
    from dynascope.lab.monitor import Progress


class Line:
    """The progress line, redrawn several times a second so that its clock advances."""

    def __init__(self, name: str, stated: int | float | None):
        self.name, self.stated, self.began = name, stated, time.monotonic()
        self.latest: Progress | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(self.text(time.monotonic() - self.began, options.max_width), no_wrap=True, overflow="ellipsis")

    def text(self, elapsed: int | float, width: int) -> str:
        """A bar if the total is known; else the clock beside the stated cost, and the part that is running."""
        now = self.latest
        share = now.done / now.total if now and now.total else 0.0
        if now and not now.part and now.total:
            bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
            pace = f", {_whole_seconds(now.left)} left" if now.rate else ""
            return f"{self.name} {bar} {now.done:,.6g} of {now.total:,.6g} {now.what}{pace}"
        clock = _whole_seconds(elapsed)
        if self.stated and not formatting.needs_gpu(self.stated):
            clock += f" of about {_whole_seconds(self.stated)}" if elapsed < self.stated else " (over the estimate)"
        doing = "starting"
        if now and now.part:
            steps = f" ({now.done:,.6g} of {now.total:,.6g} {now.what})" if width >= 100 else ""
            left = f", {_whole_seconds(now.left)} left of it" if now.rate else ""
            doing = f"part {now.part} at {100 * share:.0f} %{steps}{left}" if share < 1 else f"part {now.part} is done"
        elif now:
            doing = now.what
        return f"{self.name}: {clock}, {doing}"


def _whole_seconds(seconds: int | float) -> str:
    """A duration in whole seconds or longer units, at least a second."""
    return f"{max(1, round(seconds))} s" if seconds < 60 else formatting.duration(round(seconds))


@contextmanager
def progress_line(name: str, stated: int | float | None = None) -> Iterator[Callable[[Progress], None] | None]:
    """A callback that shows progress on one line; None if the output is not a terminal. `stated` is the cost that the
    experiment states, in seconds."""
    shown = console(errors=True)
    if not shown.is_terminal:
        yield None
        return
    line = Line(name, stated)

    def on_progress(progress: Progress) -> None:
        line.latest = progress

    with Live(line, console=shown, transient=True, refresh_per_second=5):
        yield on_progress
