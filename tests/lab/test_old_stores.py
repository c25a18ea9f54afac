"""Stores of earlier versions are read: each folder in `old_stores` is what its version left (see `slope.py` there)."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dynascope import load_trajectory
from dynascope.lab.importing import import_file
from dynascope.lab.lookup import load
from dynascope.lab.report import write
from dynascope.lab.run import run
from dynascope.lab.store import Store

HERE = Path(__file__).parent / "old_stores"
VERSIONS = sorted(folder.name for folder in HERE.iterdir() if (folder / "old.slope").is_dir())


@pytest.fixture
def slope() -> ModuleType:
    """The file of the experiment, as it is now."""
    return import_file(HERE / "slope.py")


@pytest.fixture(params=VERSIONS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A copy of an old store."""
    return Store(Path(shutil.copytree(HERE / request.param, tmp_path / "runs")))


def test_runs_sweeps_and_limits_are_on_the_pages_of_the_report(store: Store, slope: ModuleType, tmp_path: Path):
    lines: list[str] = []
    site = write(store, tmp_path / "site", find=lambda _: slope.Slope, warn=lines.append).parent
    assert lines == []
    html = "".join(page.read_text(encoding="utf-8") for page in site.rglob("index.html"))
    for text in ("The line rises", "A control.", "Whether each claim holds.", "smallest change"):
        assert text in html, text


def test_a_run_is_found_with_its_arrays_and_claims(store: Store, slope: ModuleType):
    stored = load(slope.Slope, preset="quick", seed=0, store=store).verify()
    np.testing.assert_array_equal(stored.measured()["height"], [0, 1, 2])
    np.testing.assert_array_equal(stored.reduced()["end"], 2)
    assert [(claim.id, claim.verdict) for claim in stored.claims] == [("rises", "holds"), ("short", "fails")]
    assert stored.verdict == "holds"


def test_a_new_version_measures_again_and_replaces_the_run(store: Store, slope: ModuleType):
    before = load(slope.Slope, preset="quick", seed=0, store=store)
    after = run(slope.Slope(steps=3), store=store)
    assert not after.reused
    assert after.folder == before.folder
    assert store.runs()[1] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_trajectory_is_loaded_and_resumed(version: str, slope: ModuleType):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*dynascope 0.1 with JAX .* cannot be compared")  # the expected answer
        kept = load_trajectory(HERE / version / "descent", like=slope.descend(3))
    longer, whole = kept.resume(steps=2), slope.descend(5)
    np.testing.assert_allclose(longer.model.weight, whole.model.weight, rtol=1e-5)
    np.testing.assert_allclose(longer.trace.loss, whole.trace.loss, rtol=1e-5)
