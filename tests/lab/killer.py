"""A stand-alone script that runs the toy experiment and dies: `python killer.py MODE ROOT`, exit 0 if nothing was lost.

It imports everything once and forks for every death, so that a hundred of them take seconds. `moments` kills at random
moments of a long run with checkpoints; `writes` dies at every single file operation of a run that replaces another.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import h5netcdf  # noqa: F401  (imported before the forks, for speed)
import matplotlib.pyplot  # noqa: F401

from dynascope.lab import registry
from dynascope.lab.run import run
from dynascope.lab.store import Store

warnings.filterwarnings("ignore", message=".*fork.*")
Walk = registry.load(f"{Path(__file__).with_name('toy.py')}::toy.walk")


def fork(work: Callable[[], object]) -> int:
    """Do the work in a process of its own, and return its id."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def same(one: Path, two: Path) -> None:
    """The results of two runs are the same bytes."""
    names = [str(path.relative_to(one)) for path in one.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert {"measured.nc", "predicted.nc", "claims.json", "config.json"} <= set(names)
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def at_random_moments(root: Path) -> None:
    """Kill a long run again and again; what it ends with is what an undisturbed one ends with."""
    experiment = Walk(steps=250, pause=0.004)
    child = fork(lambda: run(experiment, store=Store(root / "calm"), keep_every=0.0))
    assert os.waitpid(child, 0)[1] == 0
    (calm,) = Store(root / "calm").runs()[0]
    store, rng, killed, status = Store(root / "killed"), random.Random(1), 0, -1
    while status != 0:
        child = fork(lambda: run(experiment, store=store, keep_every=0.0))
        if killed < 12:
            while killed >= 6 and not list(root.glob("killed/*/*.unfinished/checkpoints/*")):
                time.sleep(0.01)  # on a busy machine, none of the first moments may be after the start
            time.sleep(rng.uniform(0.02, 0.2))
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        killed += status == signal.SIGKILL
        for found in store.runs()[0]:
            found.verify()
        assert store.runs()[1] == []
        assert status in (0, signal.SIGKILL)
    assert killed >= 10, killed
    (found,) = store.runs()[0]
    assert found.manifest["resumed"]
    same(calm.folder, found.folder)
    print(f"killed {killed} times")


def at_every_write(root: Path) -> None:
    """Die before each file operation of a forced run in turn: the old run or the new one can always be read."""
    Walk.draw = lambda *_: {}  # drawing is slow, and writes files like any other
    experiment = Walk(steps=3, pause=1e-9)
    store = Store(root / "store")
    assert os.waitpid(fork(lambda: run(experiment, store=store)), 0)[1] == 0
    (first,) = store.runs()[0]
    shutil.copytree(first.folder, root / "first")
    operations, deaths = 0, 0
    while True:
        child = fork(lambda n=operations: (_die_at(n), run(experiment, store=store, force=True, keep_every=0.0)))
        status = os.waitpid(child, 0)[1]
        runs, problems = store.runs()
        assert (len(runs), problems) == (1, []), (operations, problems)
        same(root / "first", runs[0].verify().folder)
        if status == 0:
            break
        assert status == signal.SIGKILL, status
        deaths += 1
        operations += 1
    (last,) = store.runs()[0]
    assert [path.name for path in last.folder.parent.iterdir()] == [last.digest]
    print(f"died {deaths} times")


def _die_at(n: int) -> None:
    """From now on, count every call that changes the disk, and kill this process at the n-th."""
    left = [n]

    def deadly(real: Callable) -> Callable:
        def call(*args, **kwargs):
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*args, **kwargs)

        return call

    for owner, names in (
        (os, ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir")),
        (Path, ("rename", "replace", "unlink", "mkdir")),
        (shutil, ("rmtree",)),
    ):
        for name in names:
            setattr(owner, name, deadly(getattr(owner, name)))


if __name__ == "__main__":
    {"moments": at_random_moments, "writes": at_every_write}[sys.argv[1]](Path(sys.argv[2]))
