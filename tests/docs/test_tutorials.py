"""The tutorials run, and show what they did."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import pytest
from matplotlib import pyplot

import notebooks
from reference_pages import missing

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))
LONG = ("gpu_and_cluster", "torch_edge")
"""Tutorials that take a while; `make docs` runs them too."""


@pytest.fixture(autouse=True)
def as_it_was():
    """What a tutorial sets in JAX and leaves open in pyplot ends with it."""
    precision = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    yield
    jax.config.update("jax_enable_x64", precision)
    pyplot.close("all")


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [pytest.param(script, marks=pytest.mark.long) if script.stem in LONG else script for script in TUTORIALS],
    ids=lambda script: script.stem,
)
def test_a_tutorial_runs_from_its_first_cell_to_its_last(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in {name for cell in notebooks.cells(script.read_text(encoding="utf-8")) for name in missing(cell)}:
        pytest.skip(f"the tutorial needs the optional package {name}")
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # commands are compiled as for a user, and run the faster
    outcomes = notebooks.execute(script, tmp_path)
    assert any(outcome.printed or outcome.figures for outcome in outcomes)


@pytest.mark.parametrize("script", TUTORIALS, ids=lambda script: script.stem)
def test_a_tutorial_begins_with_its_title(script: Path):
    first = notebooks.cells(script.read_text(encoding="utf-8"))[0]
    assert first.kind == "text"
    assert first.source.startswith("# ")


@pytest.mark.parametrize("script", TUTORIALS, ids=lambda script: script.stem)
def test_the_links_of_a_tutorial_lead_to_pages(script: Path):
    for cell in notebooks.cells(script.read_text(encoding="utf-8")):
        for target in re.findall(r"\]\(([^):\s]+)\)", cell.source) if cell.kind == "text" else ():
            assert (script.parent / target.partition("#")[0]).is_file(), target


def test_every_tutorial_is_on_the_first_page_and_in_the_navigation():
    first, navigation = (DOCS / "index.md").read_text(encoding="utf-8"), (DOCS.parent / "mkdocs.yml").read_text()
    for script in TUTORIALS:
        assert f"(tutorials/{script.name})" in first
        assert f"tutorials/{script.stem}.md" in navigation
