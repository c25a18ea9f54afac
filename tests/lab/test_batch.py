"""Several experiments at once: results in order, errors beside them, and processes that die."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dynascope.lab import batch
from dynascope.lab.batch import Request, default_jobs, outcomes
from dynascope.lab.errors import ExperimentCrash, WorkerLost
from dynascope.lab.experiment import Experiment
from dynascope.lab.stored_run import StoredRun

TOY = str(Path(__file__).parent / "toy.py")


def requests(root: Path, **changes) -> list[Request]:
    return [
        Request(f"{TOY}::toy.{name}", {"steps": 5, **changes}, None, False, 3, str(root), False)
        for name in ("walk", "still")
    ]


def test_runs_come_in_the_order_they_were_asked_for(tmp_path):
    told = []
    with ThreadPoolExecutor(1) as pool:
        found = [run for run, _ in outcomes(requests(tmp_path), pool, told.append)]
    assert [run.id for run in found if isinstance(run, StoredRun)] == ["toy.walk", "toy.still"]
    assert [run.manifest["seed"] for run in found if isinstance(run, StoredRun)] == [3, 3]
    assert sorted(progress.done for progress in told) == [1, 2]


def test_a_crash_is_a_result_too(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        found = [run for run, _ in outcomes(requests(tmp_path, crash_in="measure"), pool)]
    assert [type(error) for error in found] == [ExperimentCrash, ExperimentCrash]


def test_a_process_that_was_killed_is_one_line_each(tmp_path):
    class Broken(ThreadPoolExecutor):
        def submit(self, *_, **__) -> Future:
            future: Future = Future()
            future.set_exception(WorkerLost("its process died (SIGKILL)"))
            return future

    with Broken(1) as pool:
        found = [error for error, _ in outcomes(requests(tmp_path), pool)]
    assert all(isinstance(error, WorkerLost) for error in found)
    assert str(found[0]).endswith("toy.walk: its process died (SIGKILL); --jobs 1 needs the least memory")


def test_experiments_that_share_measurements_run_one_after_another(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "ComposedExperiment", Experiment)
    together = batch._chains(requests(tmp_path))
    assert [len(chain) for chain in together] == [2]
    with ThreadPoolExecutor(1) as pool:
        found = [run for run, _ in outcomes(requests(tmp_path), pool)]
    assert [run.id for run in found if isinstance(run, StoredRun)] == ["toy.walk", "toy.still"]


def test_no_more_processes_than_experiments():
    assert default_jobs(1) == 1
    assert 1 <= default_jobs(1000) <= 4
