"""The log of events that pages follow: those of the current run, or of the last one, from its beginning.

A page that is loaded in the middle of a run, a second tab, and one that reconnects read the same log. The id of an
event is the number of its run and its place in the log, from which a page continues after it reconnects.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

KEEP_ALIVE_SECONDS = 15.0
MOST_EVENTS = 20_000
"""After this many events, progress is no longer logged; pages still receive the end of the run."""


class Log:
    """Events of one run after another; a new run begins a new log."""

    def __init__(self, server: str) -> None:
        self.server = server
        """A name for this server process: if a page sees another one, the server was restarted."""
        self.run, self.over = 0, True
        self._events: list[str] = []
        self._closed = False
        self._news = asyncio.Event()

    def begin(self, run: int) -> None:
        """Begin the log of a run."""
        self.run, self.over, self._events = run, False, []
        self._tell()

    def add(self, run: int, kind: str, text: str) -> None:
        """Add an event of a run; one of an earlier run is dropped. `text` is JSON, on one line."""
        if run != self.run or (kind == "progress" and len(self._events) >= MOST_EVENTS):
            return
        self.over = self.over or kind == "ended"
        self._events.append(f"id: {self.server}-{run}-{len(self._events)}\nevent: {kind}\ndata: {text}\n\n")
        self._tell()

    def close(self) -> None:
        """End the streams that follow the log when the server ends."""
        self._closed = True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def follow(self, after: str = "") -> AsyncIterator[str]:
        """Every event of the current run, or those after the one with this id; then new ones as they come. A page
        opened after the run has ended gets no events; its results are in the store."""
        run, place = self.run, 0
        seen = re.fullmatch(r"([0-9a-f]+)-(\d{1,9})-(\d{1,9})", after)
        if seen and seen[1] == self.server and int(seen[2]) == run:
            place = int(seen[3]) + 1
        else:
            place = len(self._events) if self.over and not after else 0
            yield f'event: hello\ndata: {{"server": "{self.server}", "run": {run}}}\n\n'
        while not self._closed:
            if run != self.run:
                run, place = self.run, 0
            if place < len(self._events):
                text = "".join(self._events[place:])
                place = len(self._events)
                yield text
                continue
            news = self._news
            try:
                await asyncio.wait_for(news.wait(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"
