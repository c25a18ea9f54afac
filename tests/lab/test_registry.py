"""Experiments are found by reading text; names that are not there are answered with the nearest one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dynascope.lab import registry
from dynascope.lab.errors import UsageError

TOY = Path(__file__).parent / "toy.py"


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "experiments"
    folder.mkdir()
    (folder / "one.py").write_text(
        'class One(E):\n    """First?"""\n    id = "zoo.one"\n    presets = dict(quick={})\n'
    )
    (folder / "two.py").write_text('class Two(E):\n    id: ClassVar[str] = "zoo.two"\n    cost = {"quick": 2}\n')
    monkeypatch.setattr(registry, "EXPERIMENTS", folder)
    return folder


def test_an_entry_says_what_the_text_says():
    walk, still = registry.match([str(TOY)])
    assert (walk.id, walk.title, walk.place) == (
        "toy.walk",
        "Does a random walk with drift climb?",
        "Figure 1",
    )
    assert (walk.document, walk.presets, walk.cost["quick"]) == ("The book of toys", ("quick",), 0.1)
    assert (still.document, still.place, still.presets) == ("The book of toys", "Figure 2", ())


def test_finding_imports_nothing():
    heavy = "{'jax', 'xarray', 'matplotlib', 'pydantic'}"
    code = f"import sys; from dynascope.lab import registry; registry.entries(); print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_globs_choose_and_keep_the_order_given(catalog: Path):
    assert [entry.id for entry in registry.match(["zoo.two", "zoo.*"])] == ["zoo.two", "zoo.one"]
    assert [entry.presets for entry in registry.entries("*one")] == [("quick",)]


def test_a_wrong_id_is_answered_with_the_nearest(catalog: Path):
    with pytest.raises(UsageError, match=r"no experiment 'zoo.tow'; did you mean 'zoo.two'"):
        registry.match(["zoo.tow"])
    with pytest.raises(UsageError, match=r"no experiment 'xyz\*'; `dynascope list`"):
        registry.match(["xyz*"])


def test_only_a_file_has_experiments_within(catalog: Path):
    with pytest.raises(UsageError, match=r"'::' follows the name of a file, as in mine.py::zoo.two; got 'zoo.two::x'"):
        registry.match(["zoo.two::x"])


def test_two_experiments_of_one_name_are_refused(catalog: Path):
    (catalog / "three.py").write_text('class Three(E):\n    id = "zoo.one"\n')
    with pytest.raises(UsageError, match=r"two experiments are called zoo.one"):
        registry.entries()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("x = 1\n", "holds no experiment"),
        ("class A(\n", "cannot read .*SyntaxError"),
        ('import nowhere\nclass A:\n    id = "a"\n', "cannot import .*ModuleNotFoundError"),
    ],
)
def test_a_file_that_will_not_do_is_one_line(tmp_path: Path, text: str, answer: str):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=answer) as caught:
        registry.load(f"{path}")
    assert "\n" not in str(caught.value)


def test_one_of_several_in_a_file_is_meant_by_its_id():
    assert registry.load(f"{TOY}::toy.still").id == "toy.still"
    with pytest.raises(UsageError, match=r"matches 2 experiments"):
        registry.load(str(TOY))
    with pytest.raises(UsageError, match=r"no experiment 'toy.wlak' in .*did you mean 'toy.walk'"):
        registry.load(f"{TOY}::toy.wlak")
    with pytest.raises(UsageError, match="no such file"):
        registry.load("nowhere.py")
