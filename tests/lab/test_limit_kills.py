"""A search for limits that is killed, or whose workers die: nothing is lost, and it finds the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import xarray as xr

import dynascope as ds
from dynascope.lab.limit_search import carry_out
from dynascope.lab.limit_search.question import Effort, ask
from dynascope.lab.store import Store
from dynascope.lab.workers.executors import choose

BOUNDED = Path(__file__).with_name("bounded.py")
OVER = {"x": "0:1"}
SEARCH = """
import sys
import dynascope as ds
from dynascope.lab.store import Store
ds.lab.limits(sys.argv[1], {"x": "0:1"}, base={"log": sys.argv[2], "pause": 0.2}, seeds=1, store=Store(sys.argv[3]))
"""


def attempts(log: Path) -> list[tuple[float, int]]:
    """What was measured, and by which process, in that order."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(float(x), int(pid)) for x, _, pid in map(str.split, lines)]


def wait_for(log: Path, count: int) -> None:
    deadline = time.monotonic() + 300
    while len(attempts(log)) < count and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynascope.lab.limit_search.figures.draw", lambda _: ())
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)


@pytest.mark.slow
def test_after_a_kill_it_goes_on_and_finds_the_same(tmp_path: Path):
    log, address = tmp_path / "log", f"{BOUNDED}::toy.disk"
    arguments = [sys.executable, "-c", SEARCH, address, str(log), str(tmp_path / "killed")]
    search = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    wait_for(log, 6)
    search.send_signal(signal.SIGKILL)
    search.wait()
    before = attempts(log)
    assert 6 <= len(before) < 12, "in the middle of it"
    store = Store(tmp_path / "killed")
    kept = len(store.runs()[0])
    assert kept >= len(before) - 1, "all but the run under way are stored"
    found = ds.lab.limits(address, OVER, base={"log": str(log), "pause": 0.2}, seeds=1, store=store)
    again = [x for x, _ in attempts(log)[len(before) :]]
    finished = {x for x, _ in before[:-1]}
    assert not finished & set(again), "what was stored is not run again"
    calm = ds.lab.limits(address, OVER, seeds=1, store=Store(tmp_path / "calm"))
    xr.testing.assert_identical(found.drop_attrs(), calm.drop_attrs())


@pytest.mark.slow
def test_workers_that_die_cost_only_the_runs_they_were_at(tmp_path: Path):
    log = tmp_path / "log"
    log.touch()
    killed: list[int] = []

    def kill() -> None:
        for number in (2, 7):
            wait_for(log, number)
            killed.append(attempts(log)[number - 1][1])
            os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    base = {"log": str(log), "pause": 0.3}
    asked = ask(f"{BOUNDED}::toy.disk", OVER, base=base, effort=Effort(300, 1), store=Store(tmp_path / "runs"))
    with choose("local", 2) as pool:
        found = carry_out(asked, pool)
    killer.join()
    assert found.gaps == []
    assert len(killed) == 2
    assert len(attempts(log)) <= len(found.answer.points) + len(killed)
    calm = ds.lab.limits(f"{BOUNDED}::toy.disk", OVER, seeds=1, store=Store(tmp_path / "calm"))
    xr.testing.assert_identical(found.data.drop_attrs(), calm.drop_attrs())
