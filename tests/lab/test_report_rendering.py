"""The pictures of a report: drawn from the stored data, once, and never at the cost of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynascope.lab.report import rendering, write
from dynascope.lab.report.about import find_registered
from dynascope.lab.run import run
from dynascope.lab.store import Store

PICTURES = ["rendered.txt", "walk.card.webp", "walk.narrow.webp", "walk.plotly.js", "walk.wide.webp"]


@pytest.fixture
def render_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests of the runs that are drawn."""
    calls: list[str] = []
    render = rendering.render

    def record(run, find):
        calls.append(run.digest)
        return render(run, find)

    monkeypatch.setattr(rendering, "render", record)
    return calls


def pictures(site: Path, digest: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((site / "toy.walk" / digest / "figures/web").iterdir())}


def test_a_second_report_draws_only_what_is_new(walk, store: Store, tmp_path: Path, render_calls: list[str]):
    first = run(walk(), store=store)
    site = write(store, tmp_path / "site", find=lambda _: walk).parent
    before = pictures(site, first.digest)
    second = run(walk(), seed=1, store=store)
    write(store, tmp_path / "site", find=lambda _: walk)
    assert render_calls == [first.digest, second.digest]
    assert list(before) == PICTURES
    assert pictures(site, first.digest) == before
    run(walk(), seed=1, store=store, force=True)
    write(store, tmp_path / "site", find=lambda _: walk)
    assert len(render_calls) == 2, "the same data gives the same pictures"


def test_figures_that_cannot_be_drawn_are_shown_as_stored(walk, store: Store, tmp_path: Path, render_calls: list[str]):
    class Broken(walk):
        def draw(self, measured, predicted, reduced):
            raise KeyError("a variable that the stored data lack")

    stored, said = run(walk(), store=store), []
    for _ in range(2):
        site = write(store, tmp_path / "site", find=lambda _: Broken, warn=said.append).parent
        assert list(pictures(site, stored.digest)) == ["walk.wide.webp"]
        page = (site / "toy.walk" / stored.digest / "index.html").read_text(encoding="utf-8")
        assert '<img src="figures/web/walk.wide.webp"' in page
    assert "cannot be drawn by this version of toy.walk (KeyError" in said[0]
    assert len(render_calls) == 2, "it is tried again"


def test_an_experiment_of_a_file_is_found_where_it_was_run(
    walk, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stored = run(walk(), store=store)
    assert stored.manifest["command"].startswith("dynascope run toy.py::toy.walk")
    monkeypatch.chdir(Path(__file__).parent)
    site = write(store, tmp_path / "site").parent
    assert "walk.card.webp" in pictures(site, stored.digest)
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    write(store, tmp_path / "other", warn=said.append)
    assert said == [f"the stored figures are shown: {stored.folder} cannot be drawn again: toy.walk is not known here"]


def test_several_processes_draw_the_same_pictures_as_one(
    walk, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs = [run(walk(), seed=seed, store=store) for seed in range(2)]
    monkeypatch.chdir(Path(__file__).parent)
    alone = write(store, tmp_path / "alone", find=find_registered).parent
    monkeypatch.setattr(rendering, "RUNS_PER_PROCESS", 1)
    together = write(store, tmp_path / "together", find=find_registered).parent
    for one in runs:
        assert pictures(together, one.digest) == pictures(alone, one.digest)
