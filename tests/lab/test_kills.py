"""Workers that are killed in the middle of a sweep: nothing is lost, and only what they were at is run again."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dynascope.lab.store import Store
from dynascope.lab.sweeps import sweep
from dynascope.lab.workers.executors import choose

DRIFTS = [float(k) for k in range(7)]


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynascope.lab.sweeps.figures.draw", lambda _: ())
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)  # processes start faster with what is compiled already


def attempts(log: Path) -> list[tuple[float, int]]:
    """What was measured, and by which process, in that order."""
    return [(float(drift), int(pid)) for drift, pid in map(str.split, log.read_text().splitlines())]


def kill_at(log: Path, numbers: tuple[int, ...], killed: list[int]) -> None:
    """Kill the worker that begins the n-th measurement, for each n."""
    for number in numbers:
        deadline = time.monotonic() + 300
        while len(found := attempts(log)) < number and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05 * number)  # early in the run, and later
        os.kill(found[number - 1][1], signal.SIGKILL)
        killed.append(found[number - 1][1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "jobs"), [("local", 2), pytest.param("dask:local:2", 1, marks=pytest.mark.long)], ids=["pool", "dask"]
)
def test_only_runs_whose_worker_was_killed_are_carried_out_twice(walk, store: Store, tmp_path: Path, name, jobs):
    log, killed = tmp_path / "log", list[int]()
    log.touch()
    killer = threading.Thread(target=kill_at, args=(log, (2, 5), killed))
    killer.start()
    base = {"steps": 50, "pause": 0.02}
    with choose(name, jobs) as executor:
        data = sweep(walk, {"drift": DRIFTS}, base={**base, "log": str(log)}, store=store, executor=executor)
    killer.join()
    assert data.gaps == []
    for drift in DRIFTS:
        *before, _ = [pid for measured, pid in attempts(log) if measured == drift]
        assert set(before) <= set(killed), "no run is carried out twice unless its worker was killed"
    assert len(attempts(log)) <= len(DRIFTS) + len(killed)
    assert len(killed) == 2
    calm = sweep(walk, {"drift": DRIFTS}, base=base, store=Store(tmp_path / "calm"))
    assert data.end.identical(calm.end)
