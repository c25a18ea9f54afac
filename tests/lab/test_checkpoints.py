"""The lab's monitor keeps arrays wholly or not at all, and tells how far things are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynascope.lab.monitor import LabMonitor, Progress


def test_what_is_kept_is_restored(tmp_path: Path):
    arrays = {
        "file": np.arange(3),
        "a/b": np.array([[1.5]], np.float32),
        "word": np.asarray("µ"),
        "done": np.asarray(3),
    }
    LabMonitor(tmp_path).keep("001/first run", arrays)
    monitor = LabMonitor(tmp_path)
    found = monitor.restore("001/first run")
    assert found is not None
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert monitor.restored


def test_nothing_kept_is_none(tmp_path: Path):
    monitor = LabMonitor(tmp_path / "nowhere")
    assert monitor.restore("a") is None
    assert not monitor.restored


@pytest.mark.parametrize("keep", [0, 10, 100, -30])
def test_a_damaged_checkpoint_is_left_aside_with_a_line(tmp_path: Path, keep: int):
    lines: list[str] = []
    monitor = LabMonitor(tmp_path, warn=lines.append)
    monitor.keep("a", {"x": np.arange(100.0)})
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:keep])
    assert monitor.restore("a") is None
    assert len(lines) == 1
    assert str(path) in lines[0]


def test_a_checkpoint_larger_than_its_file_is_not_read(tmp_path: Path):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(10_000_000))
    assert LabMonitor(tmp_path).restore("a") is None


def test_pickles_are_never_read(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], dtype=object))
    assert LabMonitor(tmp_path).restore("a") is None
    with pytest.raises(ValueError, match="Object arrays"):
        LabMonitor(tmp_path).keep("a", {"x": np.array([{}], dtype=object)})
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_progress_knows_the_rate_since_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 10.0, 20.0, 21.0])
    monkeypatch.setattr("dynascope.lab.monitor.time.monotonic", lambda: next(clock))
    reported: list[Progress] = []
    monitor = LabMonitor(tmp_path, reported.append)
    for done in (
        500.0,
        600.0,
        700.0,
        0.0,
    ):  # it was resumed at 500; at last another piece of the same name begins
        monitor.progress(done, 1000.0, "steps")
    assert [(said.rate, said.left) for said in reported] == [(0, np.inf), (10, 40), (10, 30), (0, np.inf)]
