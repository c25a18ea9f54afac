"""The wheel, installed where the repository is not: it carries everything that a run and a report need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dynascope
from dynascope.lab import registry

ROOT = Path(__file__).resolve().parent.parent
THREE_COMMANDS = """
import contextlib, sys, dynascope.cli as cli
assert "site" in cli.__file__, cli.__file__
for line in ("list --json", "run graphs.pairs --preset quick --json", "report"):
    sys.argv = ["dynascope", *line.split()]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(open(line.split()[0] + ".out", "w")):
        cli.main()
"""


@pytest.mark.slow
def test_it_lists_runs_and_reports_without_the_repository(tmp_path):
    pytest.importorskip("hatchling", reason="builds the wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", tmp_path / "site"]
    subprocess.run([*install, wheel], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "MPLBACKEND": "agg"}
    subprocess.run([sys.executable, "-c", THREE_COMMANDS], cwd=tmp_path, env=environment, check=True)
    listed = json.loads((tmp_path / "list.out").read_text(encoding="utf-8"))
    assert {row["id"] for row in listed} == {entry.id for entry in registry.entries()}
    (run,) = json.loads((tmp_path / "run.out").read_text(encoding="utf-8"))
    assert run["verdict"] in ("holds", "erratum")
    assert "graphs.pairs" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")


def test_one_version_everywhere():
    given = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation, changes, recipe = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md", "conda/recipe.yaml")
    )
    assert dynascope.__version__ == given
    assert f"\nversion: {given}\n" in citation
    assert f"\n## {given}\n" in changes
    assert f'\n  version: "{given}"\n' in recipe
    assert json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))["version"] == given


def test_the_conda_recipe_requires_what_the_wheel_requires():
    given = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    _, _, run = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8").partition("  run:\n    - python >=3.11\n")
    lines = run.partition("\n\n")[0].splitlines()
    assert [line.strip(" -").replace(" ", "").replace("matplotlib-base", "matplotlib") for line in lines] == given
