"""A stored run depends on the code that made it: the experiment's file and what it leads to, and nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dynascope.lab import provenance as module

MINE = """
from dynascope.lab.claims import claim
from dynascope.theory import closed_form
import dynascope.probes.order as order

class Mine:
    def measure(self): return 1
    def judge(self): return 2
"""


@pytest.fixture
def mine(tmp_path: Path, walk, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An experiment's file beside a package of its own; `write` changes a file and returns the new fingerprint."""
    package = tmp_path / "dynascope"
    monkeypatch.setattr(module, "PACKAGE", package)
    holder = ModuleType("mine")
    holder.__file__ = str(tmp_path / "mine.py")
    monkeypatch.setitem(sys.modules, "mine", holder)
    experiment = type("Mine", (walk,), {"id": "mine", "__module__": "mine"})
    ages = iter(range(1, 1000))

    def write(name: str, text: str) -> dict[str, str]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(0, next(ages)))
        return module.fingerprint(experiment)

    for name in ("probes/order.py", "theory/unused.py", "lab/claims.py", "theory/deep.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("x = 1\n")
    (package / "theory/__init__.py").write_text("")
    (package / "theory/closed_form.py").write_text("from .deep import x\n")
    (tmp_path / "mine.py").write_text(MINE)
    return write


def test_what_counts_and_what_does_not(mine):
    first = mine("mine.py", MINE)
    assert mine("mine.py", MINE + "\n# a comment\n") == first
    assert mine("dynascope/theory/unused.py", "x = 2") == first
    assert mine("dynascope/lab/claims.py", "x = 2") == first
    judged = mine("mine.py", MINE.replace("return 2", "return 3"))
    assert judged["all"] != first["all"]
    assert judged["measure"] == first["measure"]
    for name in ("dynascope/theory/deep.py", "dynascope/probes/order.py", "dynascope/theory/__init__.py"):
        changed = mine(name, "x = 3")
        assert changed["measure"] != judged["measure"], name
        judged = changed


def test_drawing_code_counts_for_the_run_but_not_for_its_measurement(mine):
    text = MINE + "from dynascope.figures import panels\nfrom dynascope.theory.orbit_drawing import draw_orbits\n"
    mine("dynascope/figures/__init__.py", "from dynascope.figures.forms import panels")
    mine("dynascope/figures/forms.py", "from dynascope.theory.unused import x")
    mine("dynascope/theory/orbit_drawing.py", "x = 1")
    first = mine("mine.py", text)
    for name in ("dynascope/figures/forms.py", "dynascope/theory/orbit_drawing.py"):
        drawn = mine(name, "x = 4")
        assert drawn["all"] != first["all"], name
        assert drawn["measure"] == first["measure"], name


def test_the_bare_package_stands_for_all_of_its_rooms(mine):
    before = mine("mine.py", "import dynascope as ds")
    for room in module.ROOMS:
        after = mine(f"dynascope/{room}/some.py", "x = 2")
        assert after["all"] != before["all"], room
        before = after
