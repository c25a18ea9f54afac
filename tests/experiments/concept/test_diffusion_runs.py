"""A diffusion run that is killed or interrupted goes on to the same bits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dynascope.dynamics import driver
from dynascope.experiments.concept.diffusion import PaintedConcepts
from dynascope.lab.monitor import Progress
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

TINY = {
    "separations": [0.2, 0.7],
    "seeds": 1,
    "pixels": 4,
    "blur": 0.0,
    "channels": [8],
    "heads": 1,
    "blocks": 1,
    "dropout": 0.0,
    "average": 0.9,
    "per_class": 8,
    "batch": 2,
    "steps": 150,
    "checkpoints": 6,
    "per_prompt": 1,
    "sampling_steps": 1,
    "held_out": 0,
    "classifier_steps": 0,
}
KILLED = """
import json, os, signal, sys
from dynascope.dynamics import driver
from dynascope.experiments.concept.diffusion import PaintedConcepts
from dynascope.lab.run import run
from dynascope.lab.store import Store

def kill(progress):
    if progress.done > 0.7 * progress.total:
        os.kill(os.getpid(), signal.SIGKILL)

driver.SLICE_SECONDS = 0.0
run(PaintedConcepts(**json.loads(sys.argv[1])), store=Store(sys.argv[2]), on_progress=kill, keep_every=0.0)
"""


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    """The run that nothing disturbs."""
    return run(PaintedConcepts(**TINY), store=Store(tmp_path_factory.mktemp("calm")), draw=False)


def measured(stored: StoredRun) -> bytes:
    return (stored.folder / "measured.nc").read_bytes()


@pytest.mark.long
def test_a_killed_run_goes_on_to_the_same_bits(calm: StoredRun, tmp_path: Path):
    command = [sys.executable, "-c", KILLED, json.dumps(TINY), str(tmp_path)]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not Store(tmp_path).runs()[0]
    resumed = run(PaintedConcepts(**TINY), store=Store(tmp_path), draw=False)
    assert resumed.manifest["resumed"]
    assert measured(resumed) == measured(calm)


@pytest.mark.long
def test_after_an_interrupt_nothing_is_done_twice(calm: StoredRun, store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver, "SLICE_SECONDS", 0.0)
    seen: list[float] = []

    def interrupt(progress: Progress) -> None:
        seen.append(progress.done)
        if progress.done > 0.7 * progress.total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(PaintedConcepts(**TINY), store=store, draw=False, on_progress=interrupt, keep_every=1e9)
    before, at = len(seen), seen[-1]
    resumed = run(PaintedConcepts(**TINY), store=store, draw=False, on_progress=lambda now: seen.append(now.done))
    assert resumed.manifest["resumed"]
    assert measured(resumed) == measured(calm)
    assert max(seen[before:]) > at
