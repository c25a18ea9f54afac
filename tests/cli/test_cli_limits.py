"""`dynascope limits`: what it prints, what it refuses, and the status it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

BOUNDED = f"{Path(__file__).parent.parent / 'lab' / 'bounded.py'}::toy.disk"
LIMITS = ("limits", BOUNDED, "--over", "x=0:1", "--seeds", "1")


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynascope.lab.limit_search.figures.draw", lambda _: ())


def test_it_prints_the_answer_and_where_it_is(dynascope, tmp_path: Path):
    status, out, lines = dynascope(*LIMITS, "--points", "12", "--set", "y=0")
    assert (status, lines) == (0, ["dynascope: at most 12 runs"])
    said = out.splitlines()
    assert said[0].startswith("toy.disk, inside: holds in ")
    assert said[1].startswith("limit: x=0.7 ± ")
    assert said[2].startswith("the smallest change of the default setting that breaks it: x 0.2 → 0.7")
    assert said[3] == "theory: x=0.7"
    (folder,) = tmp_path.glob("runs/toy.disk/limits/*/")
    assert said[4].endswith(folder.name)
    out = dynascope(*LIMITS, "--points", "12", "--set", "y=0", "--json")[1]
    assert json.loads(out)["answer"] == said[:4]


def test_a_claim_that_holds_everywhere_is_one_line(dynascope):
    status, out, _ = dynascope(*LIMITS, "--claim", "always", "--points", "8")
    assert status == 0
    assert (
        out.splitlines()[0] == "toy.disk, always: holds at every point of x=0:1 (8 points, 8 runs); no limit was found"
    )


def test_gaps_are_named_and_are_status_one(dynascope):
    status, _, lines = dynascope(*LIMITS, "--points", "4", "--set", "crash_beyond=0.9")
    assert status == 1
    assert lines[-1].startswith("dynascope: gap: x=1.0, seed 0: toy.disk: measure failed: RuntimeError: too far")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--over", "x=0:2"), "dynascope: --over x is given twice: '0:1' and '0:2'"),
        (("--over", "y"), "dynascope: over 'y': a range is key=low:high or key=low:high:log"),
        (("--claim", "insid"), "dynascope: toy.disk has no claim 'insid'; did you mean 'inside'?"),
        (("--executor", "dusk"), "dynascope: executor must be local, dask:"),
        (
            ("--points", "2000"),
            "dynascope: at most 2000 runs: more than 1,000 runs or 30 minutes need --yes",
        ),
    ],
)
def test_a_mistake_is_one_line(dynascope, tmp_path: Path, words, line):
    status, out, lines = dynascope(*LIMITS, *words)
    assert (status, out) == (2, "")
    assert lines[-1].startswith(line)
    assert not (tmp_path / "runs").exists()
