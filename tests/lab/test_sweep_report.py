"""The figures of a sweep, and its page in the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from dynascope.lab.report import sweeps, write
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.sweeps import figures as sweep_figures, sweep
from dynascope.lab.sweeps.figures import draw
from dynascope.lab.sweeps.gathering import Gathering
from dynascope.lab.sweeps.summary import numbers


def found(grid: dict[str, list[Any]], seeds: int = 2, missing: tuple[int, ...] = ()) -> xr.Dataset:
    """A sweep with one claim and two numbers, one of which has settings of its own."""
    gathered = Gathering(grid, seeds)
    for k in set(range(int(np.prod(gathered.shape)))) - set(missing):
        reduced = xr.Dataset(
            {"loss": float(k), "lead": (("signal", "seed"), [[k, k + 2.0], [0.0, 1.0]])}, {"signal": [1.0, 2.5]}
        )
        gathered.add(
            k, [{"id": "up", "statement": "", "verdict": "fails" if k % 3 else "holds", "measured": 1}], reduced
        )
    return gathered.dataset()


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch):
    """The figures of a sweep, as matplotlib holds them."""

    def call(data: xr.Dataset) -> list[Figure]:
        made: list[Figure] = []
        monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: made.append(self))
        assert len(list(draw(data))) == len(made)
        return made

    return call


def printed(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_one_key_gives_lines_with_intervals(figures):
    claim, lead, loss = figures(found({"rate": [0.1, 0.2, 0.4]}, 3))
    assert len(claim.axes[0].lines) == 1
    assert len(claim.axes[0].collections) == 1, "the band of the interval"
    assert [line.get_label() for line in lead.axes[0].lines] == ["signal=1", "signal=2.5"]
    np.testing.assert_allclose(loss.axes[0].lines[0].get_ydata(), [1, 4, 7])


def test_words_on_an_axis_are_points_without_a_line(figures):
    claim, *_ = figures(found({"activation": ["linear", "relu"]}, missing=(2, 3)))
    labels = [label.get_text() for label in claim.axes[0].get_xticklabels()]
    assert labels == ["linear", "relu"]
    assert claim.axes[0].lines[0].get_linestyle() == "None"


def test_two_keys_give_a_map_with_its_values(figures):
    claim, _, loss = figures(found({"rate": [0.1, 0.2], "depth": [1, 2]}, missing=(6, 7)))
    assert printed(claim) == ["50 %", "0 %", "50 %", "gap"]
    assert printed(loss)[0] == "0.5\n±6"


def test_a_large_map_has_no_values_and_few_ticks(figures):
    claim, *_ = figures(found({"rate": list(np.linspace(0, 1, 50)), "depth": list(range(40))}, 1))
    assert printed(claim) == []
    assert len(claim.axes[0].get_xticks()) <= 12


def test_three_keys_give_a_panel_for_each_value_of_the_shortest(figures):
    claim, *_ = figures(found({"kind": ["a", "b"], "rate": [0.1, 0.2, 0.3], "depth": [1, 2, 3]}))
    assert [axes.get_title(loc="left") for axes in claim.axes[:2]] == ["kind = a", "kind = b"]


def test_many_panels_are_thinned_out_and_said_to_be(figures, monkeypatch):
    monkeypatch.setattr(sweep_figures, "MOST_PANELS", 3)
    claim, *_ = figures(found({"kind": [*"abcde"], "rate": [0.1] * 6, "depth": [1] * 6}, 1))
    assert "3 of 5 panels are shown" in claim.get_supxlabel()


def test_an_interval_of_a_mean_is_that_of_students_t():
    (_, loss) = sorted(numbers(found({"rate": [0.1]}, 4)), key=lambda number: number.name)
    assert loss.mean.item() == 1.5
    assert loss.high.item() == pytest.approx(1.5 + 3.1824 * np.sqrt(5 / 3) / 2, rel=1e-4)


def outcomes(values: list[float]) -> xr.Dataset:
    """A sweep over as many rates, with four seeds, which measures one number a run."""
    gathered = Gathering({"rate": list(range(len(values) // 4))}, 4)
    for k, value in enumerate(values):
        claims = [{"id": "up", "statement": "", "verdict": "holds", "measured": 1}]
        gathered.add(k, claims, xr.Dataset({"learned": float(value)}))
    return gathered.dataset().assign_attrs(left_out=gathered.left_out())


def test_the_interval_of_a_share_stays_between_0_and_1():
    (learned,) = numbers(outcomes([1, 1, 1, 1, 1, 1, 1, 0]))
    np.testing.assert_allclose(learned.mean.values[:, 0], [1, 0.75])
    np.testing.assert_allclose(learned.low.values[:, 0], [0.5101, 0.3006], atol=1e-4)  # Wilson's
    np.testing.assert_allclose(learned.high.values[:, 0], [1, 0.9544], atol=1e-4)


def test_a_number_that_is_not_finite_is_said_and_not_drawn(figures):
    nothing = outcomes([np.nan] * 8)
    assert nothing.attrs["left_out"] == {"learned": "it is not finite in any run"}
    assert len(figures(nothing)) == 1
    _, learned = figures(outcomes([np.nan] * 4 + [1, 2, 3, 4]))
    assert "not finite at 1 of 2 points" in learned.get_suptitle()


def site(store: Store) -> Path:
    return write(store, store.root.parent / "site", find=lambda _: None, data=True).parent


def test_a_sweep_has_a_page_and_its_points_have_no_card(walk, store: Store):
    data = sweep(walk, {"drift": [0.0, 1.0], "crash_in": ["", "judge"]}, base={"steps": 10}, store=store)
    where = Path(data.attrs["folder"])
    page = site(store) / "toy.walk" / "sweeps" / where.name / "index.html"
    html = page.read_text(encoding="utf-8")
    assert "Over drift and crash in" in html
    assert "dynascope sweep toy.py::toy.walk --grid drift=0.0,1.0" in html
    assert '<td class="is-holds">holds</td>' in html
    assert "2 runs did not finish" in html
    for name in ("sweep.nc", "claims.csv", "figures/claim-climbs.svg"):
        assert (page.parent / name).read_bytes() == (where / name).read_bytes()
        assert f'href="{name}"' in html
    light = write(store, store.root.parent / "light", find=lambda _: None).parent
    assert not list(light.rglob("*.nc"))
    index = (site(store) / "index.html").read_text(encoding="utf-8")
    assert f"toy.walk/sweeps/{where.name}/index.html" in index
    assert '<article class="card">' not in index
    alone = run(walk(drift=2.0, steps=10), store=store)
    index = (site(store) / "index.html").read_text(encoding="utf-8")
    assert index.count('<article class="card">') == 1
    own = (site(store) / "toy.walk" / alone.digest / "index.html").read_text(encoding="utf-8")
    assert f"../../toy.walk/sweeps/{where.name}/index.html" in own
    assert "All runs of this experiment" not in own


def test_a_long_table_is_cut_and_says_so(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sweeps, "MOST_ROWS", 2)
    monkeypatch.setattr(sweep_figures, "draw", lambda _: ())
    sweep(walk, {"drift": [0.0, 1.0, 2.0]}, base={"steps": 10}, store=store)
    (page,) = site(store).glob("toy.walk/sweeps/*/index.html")
    html = page.read_text(encoding="utf-8")
    assert "The first 2 of 3 points" in html
    assert html.count('<th scope="row">') == 2


def test_a_damaged_or_older_summary_is_named_and_an_unfinished_one_is_not(walk, store: Store, monkeypatch):
    monkeypatch.setattr(sweep_figures, "draw", lambda _: ())
    data = sweep(walk, {"drift": [1.0]}, base={"steps": 10}, store=store)
    folder = Path(data.attrs["folder"])
    (folder / "claims.csv").write_text("")
    (folder.parent / "old").mkdir()
    (folder.parent / "old" / "manifest.json").write_text(json.dumps({"status": "complete", "grid": {}, "seeds": 1}))
    (folder.parent / "half").mkdir()
    html = (site(store) / "index.html").read_text(encoding="utf-8")
    assert "claims.csv is damaged" in html
    assert "sweeps/old was written by an earlier version of dynascope: repeat the sweep" in html
    assert "half" not in html


@pytest.mark.parametrize(
    "entries",
    [
        {"figures": [{"name": "../../../../../x", "title": "", "width": 1, "height": 1}]},
        {"figures": [{"name": "x", "title": "", "width": "1", "height": 1}]},
        {"files": {"../../x": "0" * 64}},
        {"id": "../../x"},
        {"seeds": 0},
        {"grid": ["drift"]},
    ],
)
def test_a_sweep_whose_names_lead_out_of_its_folder_is_left_out(walk, store: Store, monkeypatch, entries):
    monkeypatch.setattr(sweep_figures, "draw", lambda _: ())
    folder = Path(sweep(walk, {"drift": [1.0]}, base={"steps": 10}, store=store).attrs["folder"])
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (folder / "manifest.json").write_text(json.dumps(manifest | entries))
    (where,) = entries
    (line,) = [line for line in sweeps.read_sweeps(store.root / "toy.walk") if isinstance(line, str)]
    assert where in line or "belongs to" in line
    assert "\n" not in line
