"""Two runs side by side: what differs, the claims, and the figure of their traces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from dynascope.lab.compare import Comparison
from dynascope.lab.files import checksum
from dynascope.lab.overlay import MOST_PANELS, draw, overlay
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

NAMES = ("A", "B")


@pytest.fixture
def compared(walk, store: Store) -> Comparison:
    first = run(walk(steps=5), store=store, draw=False)
    second = run(walk(steps=7, drift=0.0), seed=3, store=store, draw=False)
    return Comparison(first, second)


def test_the_settings_that_differ_and_no_others(compared: Comparison):
    assert compared.fields == {"seed": (0, 3), "steps": (5, 7), "drift": (1.0, 0.0)}
    assert compared.circumstances == {}


def test_what_else_differs_is_said(compared: Comparison):
    path = compared.b.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["versions"]["jax"], manifest["code"]["draw"] = "0.9", "abc"
    path.write_text(json.dumps(manifest))
    again = Comparison(compared.a, type(compared.b).open(compared.b.folder))
    assert list(again.circumstances) == ["code of draw", "jax"]
    assert again.circumstances["jax"][1] == "0.9"


def test_claims_stand_side_by_side_and_missing_ones_are_gaps(compared: Comparison):
    pair = compared.claims["climbs"]
    assert [claim and claim.verdict for claim in pair] == ["holds", "fails"]
    said = {claim["id"]: claim for claim in compared.as_json()["claims"]}
    assert said["climbs"]["same_verdict"] is False
    assert said["end"]["same_verdict"] is True
    assert said["climbs"]["a"]["measured"]["share"] == 1.0
    path = compared.b.folder / "claims.json"
    path.write_text(json.dumps([claim for claim in json.loads(path.read_text()) if claim["id"] == "end"]))
    files = {**compared.b.manifest["files"], "claims.json": checksum(path)}
    fewer = Comparison(StoredRun(compared.b.folder, {**compared.b.manifest, "files": files}), compared.a)
    assert list(fewer.claims) == ["end", "climbs"]
    assert [claim and claim.verdict for claim in fewer.claims["climbs"]] == [None, "holds"]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_traces_are_drawn_to_a_file(compared: Comparison, tmp_path: Path, kind: str):
    path = tmp_path / f"both.{kind}"
    assert draw(compared, path) == (True, [])
    assert path.stat().st_size > 1000


def dataset(offset: float = 0.0, **more: object) -> xr.Dataset:
    step = np.arange(10)
    loss = np.exp(-step)[None] + offset + np.zeros((3, 1))
    return xr.Dataset({"loss": (("seed", "step"), loss)}, {"step": step}).assign(**more)


def panel_titles(a, b) -> list[str]:
    figure, _ = overlay(a, b, NAMES)
    return (
        [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes if axes.get_visible()] if figure else []
    )


def test_the_first_is_solid_the_second_dashed_and_the_median_is_drawn():
    figure, missing = overlay(dataset(), dataset(1.0), NAMES)
    assert figure is not None
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 10]
    assert [line.get_linestyle() for line in lines] == ["-", "--"]
    np.testing.assert_allclose(lines[1].get_ydata(), np.exp(-np.arange(10)) + 1.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["A", "B"]
    assert missing == []


def test_runs_of_different_length_share_a_panel():
    figure, _ = overlay(dataset(), dataset().isel(step=slice(None, None, 2)), NAMES)
    assert figure is not None
    assert {len(line.get_xdata()) for line in figure.axes[0].lines} == {10, 5, 0}


def test_a_further_dimension_gives_colors_and_another_one_panels():
    def wide(offset: float) -> xr.Dataset:
        coords = {"rate": [0.1, 0.2, 0.3], "layer": ["in", "out"], "step": np.arange(9)}
        values = np.random.default_rng(0).normal(size=(3, 2, 9)) + offset
        return xr.Dataset({"norm": (("rate", "layer", "step"), values)}, coords)

    figure, _ = overlay(wide(0.0), wide(1.0).isel(rate=slice(1, None)), NAMES)
    assert figure is not None
    assert panel_titles(wide(0.0), wide(1.0)) == ["norm, layer in", "norm, layer out"]
    assert [text.get_text() for text in figure.legends[1].get_texts()] == ["rate 0.2", "rate 0.3"]


def test_what_cannot_be_overlaid_is_named():
    a = dataset(weights=(("step", "row"), np.zeros((10, 99))), end=3.0, only=("step", np.arange(10.0)))
    b = dataset(1.0, weights=(("step", "row"), np.ones((10, 99))), end=4.0)
    figure, missing = overlay(a, b, NAMES)
    assert figure is not None
    assert missing == ["weights", "end", "only"]
    assert overlay(xr.Dataset({"end": 1.0}), xr.Dataset({"end": 2.0}), NAMES) == (None, ["end"])


def test_what_is_the_same_in_both_is_left_out_unless_all_is():
    same = ("step", np.arange(10.0))
    assert panel_titles(dataset(rate=same), dataset(1.0, rate=same)) == ["loss"]
    assert panel_titles(dataset(rate=same), dataset(rate=same)) == ["loss", "rate"]


def test_there_are_only_so_many_panels():
    many = {f"v{number}": ("step", np.arange(10.0)) for number in range(MOST_PANELS + 3)}
    more = {name: ("step", np.arange(10.0) + 1) for name in many}
    figure, missing = overlay(dataset(**many), dataset(1.0, **more), NAMES)
    assert figure is not None
    assert len([axes for axes in figure.axes if axes.get_visible()]) == MOST_PANELS
    assert len(missing) == 4


def test_trees_nan_and_booleans_are_no_trouble():
    nan = dataset(flag=("step", np.arange(10) % 2 == 0)) * np.nan
    a, b = (xr.DataTree.from_dict({"first": dataset(offset), "second": nan}) for offset in (0.0, 1.0))
    figure, missing = overlay(a, b, NAMES)
    assert figure is not None
    assert panel_titles(a, b) == ["first/loss"]
    assert missing == []
    assert panel_titles(nan, nan) == ["loss", "flag"]


def test_without_traces_in_common_the_reduced_numbers_are_drawn(walk, store: Store, tmp_path: Path, monkeypatch):
    a, b = (run(walk(steps=5), seed=seed, store=store, draw=False) for seed in (0, 1))
    long = xr.Dataset({"share": ("rate", np.arange(9.0))}, {"rate": np.arange(9.0)})
    monkeypatch.setattr(type(a), "measured", lambda run: xr.Dataset({"end": float(run.seed)}))
    assert draw(Comparison(a, b), tmp_path / "x.png") == (False, ["end"])
    monkeypatch.setattr(type(a), "reduced", lambda run: long + run.seed)
    assert draw(Comparison(a, b), tmp_path / "x.png") == (True, [])
