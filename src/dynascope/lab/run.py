"""Running an experiment from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, Unpack

from dynascope.lab.execute import execute
from dynascope.lab.experiment import Experiment
from dynascope.lab.monitor import Progress, Watcher
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun


class Options(TypedDict, total=False):
    """The options of `execute`."""

    force: bool
    draw: bool
    on_progress: Callable[[Progress], None] | None
    warn: Callable[[str], None] | None
    keep_every: float
    watcher: Watcher | None


def run(
    experiment: Experiment,
    *,
    seed: int = 0,
    preset: str | None = None,
    store: Store | None = None,
    **options: Unpack[Options],
) -> StoredRun:
    """Run an experiment, or return its stored run if this version of its code has made one already.

    Args:
        experiment: The experiment with its fields.
        seed: Sets every random choice: an integer from 0 to 2**32 - 1.
        preset: The preset that its fields come from, if any; found by itself if the fields are exactly those.
        store: The folder of runs. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.
        **options: Those of `execute`, such as `force` and `draw`; it raises the same errors.

    Returns:
        The stored run; `reused` if nothing had to be done.
    """
    return execute(Setting.of(experiment, preset=preset, seed=seed), store, **options)
