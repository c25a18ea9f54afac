"""Run an experiment from Python: the setting is made from the experiment, and executed."""

from __future__ import annotations

from collections.abc import Callable

from dynascope.lab.execute import execute
from dynascope.lab.experiment import Experiment
from dynascope.lab.monitor import Progress, Watcher
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun


def run(
    experiment: Experiment,
    *,
    seed: int = 0,
    preset: str | None = None,
    store: Store | None = None,
    force: bool = False,
    draw: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] | None = None,
    keep_every: float = 10.0,
    watcher: Watcher | None = None,
) -> StoredRun:
    """Run an experiment, or return its stored run if this version of its code has made one already.

    Args:
        experiment: The experiment with its fields.
        seed: Sets every random choice: an integer from 0 to 2**32 - 1.
        preset: The preset that its fields come from, if any; found by itself if the fields are exactly those.
        store: The folder of runs. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.
        force: Run again what is stored. The old run stays until the new one is complete.
        draw: Whether to make figures. A later call makes them from the stored measurement.
        on_progress: Called with the progress of the work.
        warn: Called with warnings, each a line.
        keep_every: Seconds between two checkpoints.
        watcher: Sees what is recorded while it is, and each step's files.

    Returns:
        The stored run; `reused` if nothing had to be done.

    Raises:
        UsageError: If the experiment refuses the setting before it has measured anything, or data are missing.
        ExperimentCrash: If the experiment's own code raises an exception, which is the cause.
        StoreError: If the store cannot be read or written, or another process is working on the run.
    """
    return execute(
        Setting.of(experiment, preset=preset, seed=seed),
        store,
        force=force,
        draw=draw,
        on_progress=on_progress,
        warn=warn,
        keep_every=keep_every,
        watcher=watcher,
    )
