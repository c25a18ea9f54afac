"""A user's own experiments are found by their ids, in folders and in installed packages; wrong ones are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynascope.lab import registry
from dynascope.lab.batch import outcomes
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import build
from dynascope.lab.run import run
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.workers.executors import choose

TOY = (Path(__file__).parent / "toy.py").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of `$DYNASCOPE_EXPERIMENTS`, after another that is empty."""
    found = tmp_path / "mine"
    (tmp_path / "empty").mkdir()
    found.mkdir()
    (found / "walk.py").write_text(TOY.replace("toy.walk", "mine.walk").replace("toy.still", "mine.still"))
    monkeypatch.setenv("DYNASCOPE_EXPERIMENTS", os.pathsep.join(["", str(tmp_path / "empty"), str(found)]))
    return found


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with experiments: its files and its dist-info on `sys.path`."""
    place = tmp_path / "site-packages"
    about, modules = place / "their_walks-1.2.dist-info", place / "their_walks" / "experiments"
    about.mkdir(parents=True)
    modules.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-walks\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text("[dynascope.experiments]\nwalks = their_walks.experiments\n")
    (place / "their_walks" / "__init__.py").write_text("raise RuntimeError('imported while looking')\n")
    (modules / "__init__.py").write_text("")
    (modules / "walk.py").write_text(TOY.replace("toy.walk", "their.walk").replace("toy.still", "their.still"))
    monkeypatch.syspath_prepend(place)
    return place


def own(prefix: str) -> list[str]:
    return [entry.id for entry in registry.entries(f"{prefix}.*")]


def test_experiments_of_a_folder_are_found_by_their_ids(folder: Path):
    assert own("mine") == ["mine.still", "mine.walk"]
    (entry,) = registry.match(["mine.walk"])
    assert entry.origin == str(folder)
    assert registry.load("mine.walk").id == "mine.walk"
    assert {"mine.walk", "concept.signal-order"} <= set(registry.ids())
    assert registry.survey()[1] == []


def test_a_run_of_one_is_repeated_by_its_id(folder: Path):
    assert Setting.parse("mine.walk", seed=3).command == "dynascope run mine.walk --seed 3"


@pytest.mark.slow
def test_its_address_is_understood_in_another_process(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    setting = Setting.parse("mine.walk", changes={"steps": 5})
    monkeypatch.delenv("DYNASCOPE_EXPERIMENTS")  # as on a worker that was started before it was set
    with choose("local", 2) as pool:
        ((stored, warnings),) = outcomes([setting], Store(tmp_path / "runs"), pool)
    assert isinstance(stored, StoredRun)
    assert (stored.id, warnings) == ("mine.walk", [])


def test_experiments_of_an_installed_package_are_found_and_nothing_is_imported(package: Path):
    assert own("their") == ["their.still", "their.walk"]
    (entry,) = registry.match(["their.walk"])
    assert (entry.origin, entry.module, entry.address) == (
        "their-walks 1.2",
        "their_walks.experiments.walk",
        "their.walk",
    )
    assert not any(name.startswith("their_walks") for name in sys.modules)


def test_an_installed_experiment_is_imported_as_a_module_of_its_package(package: Path):
    (package / "their_walks" / "__init__.py").write_text("")
    kind = registry.load("their.walk")
    try:
        assert kind.__module__ == "their_walks.experiments.walk"
        entry = registry.entry_of(kind)
        assert entry is not None
        assert entry.address == "their.walk"
        assert Setting.parse(kind).command == "dynascope run their.walk"
    finally:
        for name in [name for name in sys.modules if name.startswith("their_walks")]:
            del sys.modules[name]


@pytest.mark.parametrize(
    ("points", "ids", "problem"),
    [
        ("one = their_walks.experiments.walk:Still", ["their.still"], ""),
        ("one = their_walks.experiments.walk", ["their.still", "their.walk"], ""),
        ("one = their_walks.nowhere", [], "'one' of their-walks 1.2 are left out: their_walks.nowhere has no source"),
        ("one = nowhere.at_all", [], "nowhere.at_all has no source file"),
        ("one = sys", [], "sys has no source file"),
    ],
)
def test_an_entry_point_names_a_package_a_module_or_a_class(package: Path, points: str, ids: list[str], problem: str):
    (package / "their_walks-1.2.dist-info" / "entry_points.txt").write_text(f"[dynascope.experiments]\n{points}\n")
    assert own("their") == ids
    problems = registry.survey()[1]
    assert len(problems) == bool(problem)
    assert all(problem in line for line in problems)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("class A(\n", "cannot read {path}: SyntaxError"),
        ("\x00", "cannot read {path}"),
        (
            'class A:\n    id = "../../evil"\n',
            "A in {path} is left out: an id is lower-case words",
        ),
        ('class A:\n    id = "/etc/evil"\n', "got '/etc/evil'"),
        ('class A:\n    id = "Mine.Evil"\n', "got 'Mine.Evil'"),
        ('class A:\n    id = "mine..evil"\n', "got 'mine..evil'"),
        ('class A:\n    id = ""\n', "got ''"),
        ('class A:\n    id = "concept.signal-order"\n', "is already the id of an experiment of dynascope"),
        ('class A:\n    id = "mine.walk"\n', "mine.walk is already the id of {folder}/walk.py"),
    ],
)
def test_what_will_not_do_is_one_line_and_the_others_are_found(folder: Path, text: str, line: str):
    path = folder / "zz.py"
    path.write_text(text)
    found, (problem,) = registry.survey()
    assert line.format(path=path, folder=folder) in problem
    assert "\n" not in problem
    assert "mine.walk" in [entry.id for entry in found]
    with pytest.raises(UsageError, match=r"no experiment 'mine.zz'.*left out"):
        registry.match(["mine.zz"])


def test_a_folder_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DYNASCOPE_EXPERIMENTS", str(tmp_path / "nowhere"))
    assert registry.survey()[1] == [f"{tmp_path}/nowhere, which $DYNASCOPE_EXPERIMENTS names, is not a folder"]


@pytest.mark.parametrize("id", ["../../evil", "/tmp/evil", "Toy.Walk", "toy walk", "toy/walk", "concept.signal-order"])
def test_an_id_that_will_not_do_is_refused_before_anything_is_written(id: str, tmp_path: Path, walk, store: Store):
    path = tmp_path / "mine.py"
    path.write_text(TOY.replace("toy.walk", id))
    with pytest.raises(UsageError, match=r"an id is lower-case words|is the id of an experiment of dynascope"):
        registry.load(str(path) + "::*")
    other = type("Other", (walk,), {"id": id, "__module__": __name__})
    for refused in (lambda: build(other, {}), lambda: run(other(), store=store)):
        with pytest.raises(UsageError, match=r"Other: (an id is lower-case words|.* is the id of an exp)"):
            refused()
    assert not store.root.exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('class A:\n    id = "mine.a"\n', "A in .*mine.py is not an Experiment"),
        ("import sys\nsys.exit(3)\nclass A:\n    id = 'mine.a'\n", "cannot import .*: SystemExit: 3"),
        (
            "from dynascope.lab.experiment import Experiment\nclass A(Experiment):\n    id = 'mine.a'\n",
            "A in .*mine.py lacks source, control, draw, judge, measure, reduce",
        ),
        (TOY.replace("toy.walk", "mine.a") + "\nWalk.id = '../../evil'\n", "says id = 'mine.a', but its id is"),
    ],
)
def test_what_is_no_experiment_is_one_line(tmp_path: Path, text: str, line: str):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=line) as caught:
        registry.load(f"{path}::mine.a")
    assert "\n" not in str(caught.value)


def test_list_stays_light_with_own_experiments(folder: Path, package: Path):
    code = """if True:
        import sys
        from dynascope import cli
        sys.argv = ["dynascope", "list"]
        try:
            cli.main()
        finally:
            print({"jax", "xarray", "matplotlib", "numpy", "their_walks"} & sys.modules.keys())
    """
    paths = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "400"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=folder)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "set()"
    assert f"from {folder}" in done.stdout
    assert "from their-walks 1.2" in done.stdout
