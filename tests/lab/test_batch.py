"""Several experiments at once: results in order, errors beside them, and processes that die."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dynascope.lab import batch
from dynascope.lab.batch import default_jobs, outcomes
from dynascope.lab.errors import ExperimentCrash, WorkerLost
from dynascope.lab.experiment import Experiment
from dynascope.lab.setting import Setting
from dynascope.lab.stored_run import StoredRun

TOY = str(Path(__file__).parent / "toy.py")


def asked(**changes) -> list[Setting]:
    return [Setting.parse(f"{TOY}::toy.{name}", changes={"steps": 5, **changes}, seed=3) for name in ("walk", "still")]


def test_runs_come_in_the_order_they_were_asked_for(store):
    told = []
    with ThreadPoolExecutor(1) as pool:
        found = [run for run, _ in outcomes(asked(), store, pool, on_progress=told.append)]
    assert [run.id for run in found if isinstance(run, StoredRun)] == ["toy.walk", "toy.still"]
    assert [run.manifest["seed"] for run in found if isinstance(run, StoredRun)] == [3, 3]
    assert sorted(progress.done for progress in told) == [1, 2]


def test_a_crash_is_a_result_too(store):
    with ThreadPoolExecutor(1) as pool:
        found = [run for run, _ in outcomes(asked(crash_in="measure"), store, pool)]
    assert [type(error) for error in found] == [ExperimentCrash, ExperimentCrash]


def test_a_process_that_was_killed_is_one_line_each(store):
    class Broken(ThreadPoolExecutor):
        def submit(self, *_, **__) -> Future:
            future: Future = Future()
            future.set_exception(WorkerLost("its process died (SIGKILL)"))
            return future

    with Broken(1) as pool:
        found = [error for error, _ in outcomes(asked(), store, pool)]
    assert all(isinstance(error, WorkerLost) for error in found)
    assert str(found[0]).endswith("toy.walk: its process died (SIGKILL); --jobs 1 needs the least memory")


def test_experiments_that_share_measurements_run_one_after_another(store, monkeypatch):
    monkeypatch.setattr(batch, "ComposedExperiment", Experiment)
    together = batch._chains(asked())
    assert [len(chain) for chain in together] == [2]
    with ThreadPoolExecutor(1) as pool:
        found = [run for run, _ in outcomes(asked(), store, pool)]
    assert [run.id for run in found if isinstance(run, StoredRun)] == ["toy.walk", "toy.still"]


def test_the_longest_chain_begins_first():
    walk, still = asked()
    assert batch._chains([walk, still, still]) == [[1, 2], [0]]


def test_the_chain_that_costs_most_begins_first():
    still, dear = asked()[1], Setting.parse(f"{TOY}::toy.walk")
    assert (still.cost, dear.cost) == (None, 0.2)
    assert batch._chains([still, dear]) == [[1], [0]]


def test_no_more_processes_than_experiments():
    assert default_jobs(1) == 1
    assert 1 <= default_jobs(1000) <= 4
