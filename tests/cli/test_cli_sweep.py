"""`dynascope sweep`: what it says before it starts, what it prints, and the status it ends with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import typer

from dynascope.cli import sweep as command
from dynascope.lab.workers.cluster import Cluster

WALK = f"{Path(__file__).parent.parent / 'lab' / 'toy.py'}::toy.walk"
SWEEP = ("sweep", WALK, "--preset", "quick", "--grid", "drift=0,1")


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynascope.lab.sweeps.figures.draw", lambda _: ())


def test_it_says_how_much_there_is_to_do_and_prints_a_table(dynascope, tmp_path: Path):
    status, out, lines = dynascope(*SWEEP, "--seeds", "2")
    assert status == 0
    assert lines == ["dynascope: 4 runs, about 0.4 s on 1 process, estimated from the experiment's cost"]
    assert "climbs  100 % [34, 100] of 2" in out
    assert len(list(tmp_path.glob("runs/toy.walk/sweeps/*/sweep.nc"))) == 1
    status, out, lines = dynascope(*SWEEP, "--seeds", "2", "--json")
    assert json.loads(out)["rows"][0]["claim"] == "climbs"
    assert not any("runs, about" in line for line in lines), "nothing is left to do"
    _, _, lines = dynascope("sweep", WALK, "--preset", "quick", "--grid", "drift=0,1,2", "--seeds", "2")
    assert lines[0].startswith("dynascope: 2 runs (4 more already stored), about 0.2 s")


def test_strict_is_status_one_where_a_claim_fails_anywhere(dynascope):
    assert dynascope(*SWEEP, "--strict")[0] == 1
    assert dynascope("sweep", WALK, "--preset", "quick", "--grid", "drift=1,2", "--strict")[0] == 0


def test_the_control_is_swept(dynascope):
    status, out, _ = dynascope("sweep", WALK, "--control", "--grid", "steps=10,20", "--json")
    assert status == 0
    assert {row["share"] for row in json.loads(out)["rows"] if row["claim"] == "climbs"} == {0.0}


def test_each_gap_is_named_and_debug_prints_its_traceback(dynascope):
    words = ("sweep", WALK, "--preset", "quick", "--grid", "crash_in=judge,measure")
    status, _, lines = dynascope(*words)
    assert status == 1
    assert [line.partition(" (")[0] for line in lines[1:]] == [
        f"dynascope: gap: crash_in={step}, seed 0: toy.walk: {step} failed: RuntimeError: told to crash in {step}"
        for step in ("judge", "measure")
    ]
    lines = dynascope(*words, "--debug")[2]
    assert sum(line.startswith("Traceback") for line in lines) >= 2


def test_a_part_is_carried_out_alone_and_the_last_call_makes_the_summary(dynascope, tmp_path: Path):
    for part in ("2/2", "1/2"):
        status, out, _ = dynascope(*SWEEP, "--part", part)
        assert (status, out) == (0, f"part {part}: 1 of 1 runs are stored\n")
    assert not list(tmp_path.glob("runs/toy.walk/sweeps/*"))
    _, out, _ = dynascope(*SWEEP, "--part", "1/2", "--json")
    assert json.loads(out) == {"part": "1/2", "runs": 1, "stored": 1, "gaps": []}
    status, out, lines = dynascope(*SWEEP)
    assert (status, lines) == (0, [])
    assert "climbs" in out


def test_much_work_is_asked_for_twice(dynascope, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(command, "MOST_UNASKED", 1)
    status, out, lines = dynascope(*SWEEP)
    assert (status, out, len(lines)) == (2, "", 1)
    assert "more than 1 runs or 30 minutes need --yes" in lines[0]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)

    def no(*_: object, **__: object) -> None:
        raise typer.Abort

    monkeypatch.setattr(typer, "confirm", no)
    assert dynascope(*SWEEP)[0] == 130
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr(Cluster, "__init__", lambda *_: pytest.fail("nobody has agreed yet"))
    assert dynascope(*SWEEP, "--executor", "dask:local:2")[0] == 130
    assert dynascope(*SWEEP, "--yes")[0] == 0
    assert dynascope(*SWEEP, "--executor", "dask:local:2")[0] == 0, "all of it is stored, so no cluster is needed"


def test_processes_and_a_cluster_are_not_asked_for_together(dynascope, tmp_path: Path):
    status, out, lines = dynascope(*SWEEP, "--jobs", "2", "--executor", "dask:local:2")
    assert (status, out, len(lines)) == (2, "", 1)
    assert "--jobs starts processes on this machine; it does not apply to the executor 'dask:local:2'" in lines[0]
    assert not (tmp_path / "runs").exists()


def test_points_of_a_sweep_are_not_the_last_run(dynascope):
    dynascope(*SWEEP)
    assert "last run" not in dynascope("show", WALK)[1]
    assert dynascope("runs")[2][0].endswith("runs, only 2 points of sweeps: --sweeps shows them")
    dynascope("run", WALK, "--preset", "quick", "--set", "drift=0.0")
    assert "last run" in dynascope("show", WALK)[1]


def test_a_long_table_is_a_row_for_each_claim(dynascope, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dynascope.lab.terminal.MOST_ROWS", 3)
    out = dynascope(*SWEEP)[1].splitlines()
    assert out[0].split("  ")[0] == "claim"
    assert [line.split() for line in out[1:3]] == [
        ["climbs", "50", "%", "of", "2", "1", "1", "2"],
        ["end", "100", "%", "of", "2", "2", "0", "2"],
    ]


def test_what_is_left_out_of_the_dataset_is_named(dynascope):
    lines = dynascope("sweep", WALK, "--preset", "quick", "--grid", "members=2,3")[2]
    why = "end is left out of sweep.nc: it changes over the grid: (seed_of_run 2) here, (seed_of_run 3) there"
    assert lines[-1] == f"dynascope: {why}"
