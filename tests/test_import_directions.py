"""The checker of import directions goes red on each kind of violation, and is green on this tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "import_directions.py"


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True)


def test_this_tree_follows_the_arrows():
    done = check()
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("tasks/a.py", "import dynascope.models.mlp"),
        ("models/a.py", "from dynascope.tasks import teachers"),
        ("models/a.py", "from dynascope import tasks"),
        ("probes/a.py", "from dynascope.dynamics.driver import run"),
        ("dynamics/a.py", "from ..models.mlp import MLP"),
        ("theory/a.py", "from dynascope.experiments.concept import order"),
        ("theory/a.py", "from dynascope.lab.claims import claim"),
        ("experiments/x/a.py", "from dynascope.lab.store import Store"),
        ("experiments/x/a.py", "def f():\n    from dynascope.lab import run"),
        ("experiments/x/a.py", "import dynascope.lab"),
        ("lab/claims.py", "from dynascope.lab.store import Store"),
        ("lab/experiment.py", "from dynascope.dynamics.watch import Monitor"),
        ("lab/run.py", "from dynascope.cli import main"),
        ("theory/a.py", "import rich.table"),
        ("experiments/x/a.py", "from jinja2 import Template"),
    ],
)
def test_a_violation_is_named(tmp_path: Path, module: str, line: str):
    path = tmp_path / "dynascope" / module
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    done = check(str(tmp_path))
    assert done.returncode == 1
    assert module in done.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("theory/a.py", "from dynascope.tasks.teachers import Teacher"),
        (
            "experiments/x/a.py",
            "from dynascope.lab.experiment import Experiment\nfrom dynascope import tasks",
        ),
        ("lab/store.py", "from dynascope import __version__\nimport rich"),
        ("dynamics/__init__.py", "from .loop import run\nfrom dynascope.probes.probe import Probe"),
        ("__init__.py", "from dynascope import tasks"),
    ],
)
def test_an_import_along_the_arrows_is_left_alone(tmp_path: Path, module: str, line: str):
    path = tmp_path / "dynascope" / module
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    assert check(str(tmp_path)).stdout == "imports follow the arrows\n"
