"""Python's garbage collector in processes that belong to the lab."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Collect garbage after every 20,000 new objects instead of 700, in the process of a command or of a worker.

    JAX makes many objects while it traces, and each collection visits some of the million that its modules hold: 4 % of
    the time of a quick run.
    """
    gc.set_threshold(20_000, 20, 20)
