"""The example of a package with experiments: found by its entry point, and run in a tiny size; nothing is installed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from dynascope.lab import registry
from dynascope.lab.execute import execute
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store

PACKAGE = Path(__file__).resolve().parents[2] / "examples" / "dynascope-grokking"
TINY = {"digits": 5, "width": 8, "weight_decays": [0.5, 1.0], "shares": [0.6, 0.8], "steps": 100, "seeds": 1}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip would write, from the package's own pyproject.toml, and its source folder on `sys.path`."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = tmp_path / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["dynascope.experiments"]
    lines = [f"{name} = {value}" for name, value in points.items()]
    (about / "entry_points.txt").write_text("\n".join(["[dynascope.experiments]", *lines, ""]))
    monkeypatch.syspath_prepend(PACKAGE / "src")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.usefixtures("installed")
def test_its_experiment_is_found_by_its_entry_point():
    (entry,) = registry.match(["grokking.*"])
    assert (entry.id, entry.origin) == ("grokking.modular-addition", "dynascope-grokking 0.1.0")
    assert entry.module == "dynascope_grokking.grokking"


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_it_runs_and_judges(store: Store):
    setting = Setting.parse("grokking.modular-addition", changes=TINY)
    run = execute(setting, store)
    names = ["late", "one-over-decay", "more-data", "waves", "norm-falls", "rank-falls", "flatter"]
    assert [claim.id for claim in run.claims] == names
    assert list(run.measured().accuracy.dims) == ["weight_decay", "share", "seed", "step"]
    assert (run.folder / "figures" / "grokking.png").is_file()
