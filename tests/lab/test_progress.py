"""A run has one line of progress, which goes forward over all of its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynascope.lab import monitor as module
from dynascope.lab.monitor import LabMonitor, Progress
from dynascope.lab.progress_line import Line
from dynascope.lab.run import run
from dynascope.lab.store import Store


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_parts_are_numbered_over_the_whole_run_and_each_has_its_own_rate(tmp_path: Path, clock: list[float]):
    seen: list[Progress] = []
    monitor = LabMonitor(tmp_path, seen.append)
    reports = [(monitor, 10), (monitor, 50), (monitor, 100), (monitor.inside("second"), 20), (monitor.inside("x"), 10)]
    for each, done in reports:
        each.progress(float(done), 100.0, "steps")
        clock[0] += 1.0
    assert [each.part for each in seen] == [1, 1, 1, 2, 3]
    assert [each.rate for each in seen] == [0.0, 40.0, 45.0, 0.0, 0.0]
    assert seen[1].left == 50 / 40


def test_a_report_after_the_end_of_a_part_begins_the_next(tmp_path: Path):
    seen: list[Progress] = []
    monitor = LabMonitor(tmp_path, seen.append)
    for done, total, what in ((1, 1, "steps"), (1, 1, "steps"), (1, 5, "steps"), (2, 5, "layers")):
        monitor.progress(float(done), float(total), what)
    assert [each.part for each in seen] == [1, 2, 3, 4]


def test_a_run_reports_its_steps_too(walk, store: Store):
    seen: list[Progress] = []
    run(walk(steps=3), store=store, on_progress=seen.append)
    assert [each.what for each in seen] == ["walk"] * 3 + ["predicting", "reducing", "judging", "drawing"]
    assert [each.part for each in seen[:3]] == [1, 1, 1]


@pytest.mark.parametrize(
    ("progress", "elapsed", "width", "words"),
    [
        (None, 0.2, 80, "toy: 1 s of about 8 s, starting"),
        (Progress("steps", 30, 100, 10, 7, 2), 4.0, 80, "toy: 4 s of about 8 s, part 2 at 30 %, 7 s left of it"),
        (
            Progress("steps", 1200, 4000, 310, 9, 3),
            90.0,
            120,
            "toy: 1 min 30 s (over the estimate), part 3 at 30 % (1,200 of 4,000 steps), 9 s left of it",
        ),
        (Progress("steps", 100, 100, 10, 0, 2), 4.0, 80, "toy: 4 s of about 8 s, part 2 is done"),
        (Progress("drawing", 0, 0, 0, float("inf")), 5.0, 80, "toy: 5 s of about 8 s, drawing"),
        (Progress("runs", 5, 20, 1, 15), 5.0, 80, "toy █████░░░░░░░░░░░░░░░ 5 of 20 runs, 15 s left"),
    ],
)
def test_the_line_says_what_is_known(progress: Progress | None, elapsed: float, width: int, words: str):
    line = Line("toy", 8.0)
    line.latest = progress
    assert line.text(elapsed, width) == words
