"""Limits of claims: points are placed where the verdict changes, and find limits that are known exactly."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import dynascope as ds
from dynascope.lab import registry
from dynascope.lab.errors import ClusterLost, UsageError
from dynascope.lab.experiment import Experiment
from dynascope.lab.limit_search import carry_out, work
from dynascope.lab.limit_search.question import Effort, ask
from dynascope.lab.netcdf import load
from dynascope.lab.store import Store
from dynascope.lab.sweeps.points import run_points
from dynascope.lab.workers.executors import InProcess

BOUNDED = Path(__file__).with_name("bounded.py")
RADIUS = 0.7


@pytest.fixture(scope="module")
def disk() -> type[Experiment]:
    return registry.load(f"{BOUNDED}::toy.disk")


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tests that look at the figure draw it."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("dynascope.lab.limit_search.figures.draw", lambda _: ())


@pytest.fixture
def drawn() -> None:
    pass


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without a store: the experiment's own methods, one after another."""

    def run_here(numbers, setting, store, executor, *, force=False):
        for number in numbers:
            experiment = setting(number).experiment
            measured = experiment.measure(setting(number).seed)
            claims = [claim.model_dump(mode="json") for claim in experiment.judge(experiment.reduce(measured, None))]
            yield number, (claims, measured)

    monkeypatch.setattr(work, "run_points", run_here)


def test_a_limit_in_one_field_is_found_to_the_resolution(disk, store: Store, at_once):
    found = ds.lab.limits(disk, {"x": "0:1"}, base={"y": 0.0}, seeds=1, resolution=0.01, store=store)
    assert found.sizes["limit"] == 1
    assert found.estimate.item() == pytest.approx(RADIUS, abs=1e-6), "the margin is a straight line here"
    assert found.uncertainty.item() <= 0.01
    assert found.holds_at.item() < RADIUS <= found.fails_at.item()
    assert found.theory.values.tolist() == [[RADIUS]]
    assert found.smallest_change.item() == pytest.approx(RADIUS, abs=1e-6)
    assert found.distance.item() == pytest.approx(RADIUS - 0.2, abs=1e-6)
    assert found.sizes["point"] <= 25, "a grid of the same resolution has 101 points"
    assert found.text[0].startswith("toy.disk, inside: holds in 6")
    assert found.text[1].startswith("limit: x=0.7 ± 0.00")


def test_a_claim_without_a_number_is_followed_by_its_verdict(disk, store: Store, at_once):
    found = ds.lab.limits(disk, {"x": "0:1"}, claim="flag", base={"y": 0.0}, seeds=1, store=store)
    assert abs(found.estimate.item() - RADIUS) <= found.uncertainty.item() + 1e-12  # a point lies at 0.7
    assert found.uncertainty.item() <= 0.01


@pytest.mark.parametrize("claim", ["inside", pytest.param("flag", marks=pytest.mark.long)])
def test_limits_in_a_plane_are_found_with_a_quarter_of_the_runs_of_a_grid(disk, store: Store, at_once, claim):
    question = {"claim": claim, "seeds": 1, "resolution": 0.02, "points": 650, "store": store}
    found = ds.lab.limits(disk, {"x": "0:1", "y": "0:1"}, **question)
    radius = np.hypot(*found.estimate.values.T)
    assert np.abs(radius / RADIUS - 1).max() < 0.02
    assert found.uncertainty.max() <= 0.02
    assert found.seeds.sum() <= 51**2 / 4
    assert found.sizes["limit"] > 40
    angles = np.sort(np.arctan2(*found.estimate.values.T))
    assert np.diff(angles, prepend=0, append=math.pi / 2).max() < 0.1, "everywhere along the circle"
    x, y = found.smallest_change.values
    assert math.hypot(x, y) == pytest.approx(RADIUS, abs=0.01)
    assert found.distance.item() == pytest.approx(RADIUS - math.hypot(0.2, 0.1), abs=0.02)
    assert "theory: its line is" in found.text[-1]
    on_line = np.hypot(*found.theory.values.T)
    np.testing.assert_allclose(on_line, RADIUS, atol=1e-9)


def test_few_integers_beside_a_logarithmic_field_have_a_limit_each(disk, store: Store, at_once):
    over = {"rate": "1e-2:1:log", "layers": "1:8"}
    base = {"kind": "depth"}
    found = ds.lab.limits(disk, over, claim="flag", base=base, seeds=1, resolution=0.02, store=store)
    limit = {int(layers): rate for rate, layers in found.estimate.values}
    assert limit.keys() == set(range(1, 9))
    for layers, rate in limit.items():
        assert rate == pytest.approx(1 / layers, rel=0.05)
    assert found.uncertainty.max() <= 0.01
    assert set(found["values"].sel(field="layers").values) == set(range(1, 9))
    assert found.seeds.sum() <= 8 * 51 / 3


def test_many_integers_are_rounded_and_run_once(disk, store: Store, at_once):
    over = {"layers": "1:40"}
    found = ds.lab.limits(disk, over, base={"kind": "depth", "rate": 0.05}, seeds=1, store=store)
    values = found["values"].values.ravel().tolist()
    assert len(set(values)) == len(values) < 20
    assert (found.holds_at.item(), found.fails_at.item()) == (19, 20)
    assert found.smallest_change.item() == 20, "there is nothing between two integers"


def test_seeds_are_repeated_where_they_disagree(disk, store: Store, at_once):
    found = ds.lab.limits(disk, {"x": "0:1"}, base={"y": 0.0, "noise": 0.05}, seeds=7, store=store)
    near = np.abs(found["values"].values.ravel() - RADIUS) < 0.3
    assert set(found.seeds.values[~near]) == {2}
    assert {2, 7} == set(found.seeds.values)
    mixed = (found.share > 0) & (found.share < 1)
    assert set(found.seeds.values[mixed.values]) == {7}
    assert abs(found.estimate - RADIUS).min() < 0.1
    assert found.uncertainty.max() > 0.01, "what the seeds leave open is wider than the spacing"


@pytest.mark.parametrize(
    ("claim", "base", "text"),
    [
        ("always", {}, "toy.disk, always: holds at every point of x=0:1 ("),
        ("inside", {"y": 3.0}, "toy.disk, inside: fails at every point of x=0:1 ("),
    ],
)
def test_a_claim_that_holds_or_fails_everywhere_is_one_line(disk, store: Store, at_once, claim, base, text):
    found = ds.lab.limits(disk, {"x": "0:1"}, claim=claim, base=base, seeds=1, store=store)
    (line,) = found.text
    assert line.startswith(text)
    assert line.endswith(" runs); no limit was found")
    assert found.sizes["limit"] == 0
    assert math.isnan(found.distance)


def test_an_item_of_a_list_is_a_field(disk, store: Store, at_once):
    found = ds.lab.limits(disk, {"pair.0": (0, 1)}, claim="first", seeds=1, store=store)
    assert found.field.values.tolist() == ["pair.0"]
    assert found.estimate.item() == pytest.approx(0.5, abs=1e-6)


def test_the_runs_are_bounded_and_come_from_the_store_the_second_time(disk, store: Store, monkeypatch):
    first = ds.lab.limits(disk, {"x": "0:1", "y": "0:1"}, points=15, seeds=2, store=store)
    assert first.seeds.sum() <= 15
    assert len(store.runs()[0]) == first.seeds.sum()
    monkeypatch.setattr(InProcess, "submit", lambda *_: pytest.fail("nobody needs to be asked"))
    again = ds.lab.limits(disk, {"x": "0:1", "y": "0:1"}, points=15, seeds=2, store=store)
    xr.testing.assert_identical(first, again)


def test_what_is_left_behind(disk, store: Store, drawn):
    found = ds.lab.limits(disk, {"x": "0:1", "y": "0:1"}, points=25, seeds=1, store=store)
    folder = Path(found.attrs["folder"])
    assert sorted(path.name for path in folder.iterdir()) == [
        "figures",
        "limits.json",
        "limits.nc",
        "manifest.json",
        "points.csv",
    ]
    kept = load(folder / "limits.nc")
    assert isinstance(kept, xr.Dataset)
    xr.testing.assert_identical(kept.drop_attrs(), found.drop_attrs())
    summary, manifest = (json.loads((folder / f"{name}.json").read_text()) for name in ("limits", "manifest"))
    assert summary["answer"] == found.text
    assert len(summary["points"]) == found.sizes["point"] == len((folder / "points.csv").read_text().splitlines()) - 1
    assert manifest["command"].startswith("dynascope limits bounded.py::toy.disk --over x=0:1 --over y=0:1 --points 25")
    assert b"<svg" in (folder / "figures" / "limits.svg").read_bytes()
    assert len(store.runs()[0]) == 25, "the folder of limits is no run"
    assert store.runs()[1] == []


@pytest.mark.parametrize("over", [{"x": "0:1"}, {"rate": "1e-3:1:log"}, {"x": "0:1", "y": "0:1", "rate": "1e-3:1:log"}])
def test_the_figure_of_one_field_and_of_three(disk, store: Store, at_once, drawn, over):
    found = ds.lab.limits(disk, over, points=20, seeds=1, store=store)
    assert (Path(found.attrs["folder"]) / "figures" / "limits.svg").stat().st_size > 1000


def test_a_run_that_crashes_is_a_gap_and_no_limit(disk, store: Store):
    found = ds.lab.limits(disk, {"x": "0:1"}, base={"crash_beyond": 0.9}, seeds=1, points=12, store=store)
    assert "gap" in found.verdict.values
    assert found.gaps[0].startswith("x=1.0, seed 0: toy.disk: measure failed: RuntimeError: too far")
    assert found.estimate.values.ravel() == pytest.approx([math.sqrt(RADIUS**2 - 0.01)], abs=0.02)


def test_a_lost_cluster_ends_it_and_finished_runs_stay(disk, store: Store, monkeypatch):
    def lose(*args, **kwargs):
        yield from list(run_points(*args, **kwargs))[:1]
        raise ClusterLost("it has gone")

    monkeypatch.setattr(work, "run_points", lose)
    with pytest.raises(ClusterLost):
        ds.lab.limits(disk, {"x": "0:1"}, seeds=1, store=store)
    assert len(store.runs()[0]) == 1


WRONG = [
    ({"z": "0:1"}, {}, "toy.disk has no field 'z'; its fields: "),
    ({"x": "1:0"}, {}, "over x=1:0: low and high must be finite, and low must be below high"),
    ({"x": "0:inf"}, {}, "over x=0:inf: low and high must be finite, and low must be below high"),
    ({"x": "0:1:5"}, {}, "over x=0:1:5: a range is key=low:high or key=low:high:log"),
    ({"x": "zero:1"}, {}, "over x=zero:1: a range is key=low:high or key=low:high:log"),
    ({"rate": "0:1:log"}, {}, "over rate=0:1:log: the ends of a logarithmic range must be positive"),
    ({"rate": "0:1"}, {}, "toy.disk: rate must be a number > 0; got 0.0"),
    ({"layers": "1:2.5"}, {}, "over layers=1:2.5: layers takes integers, so both ends of its range must be integers"),
    ({"kind": "0:1"}, {}, "over kind=0:1: kind is disk or depth, not a number"),
    ({"pair": "0:1"}, {}, "over pair=0:1: pair is [number, number], not a number: name one of its items, pair.0"),
    ({"sizes.2": "1:4"}, {}, "over sizes.2: sizes has the items 0 to 1 in this setting"),
    ({"x.0": "1:4"}, {}, "over x.0: x is not a list in this setting"),
    ({"x": "0:1"}, {"claim": "insid"}, "toy.disk has no claim 'insid'; did you mean 'inside'?"),
    ({"x": "0:1"}, {"claim": "qqq"}, "toy.disk has no claim 'qqq'; its claims: always, first, flag, inside"),
    ({"x": "0:1"}, {"base": {"x": 0.5}}, "x is given by a range and by a value"),
    ({"x": "0:1"}, {"preset": "quik"}, "toy.disk has no preset 'quik'; it has quick, full; did you mean 'quick'?"),
    ({"x": "0:1"}, {"effort": {"resolution": 0.0}}, "resolution must be a share of the range, above 0 and below 1"),
    ({"x": "0:1"}, {"effort": {"runs": 10**9}}, "points must be at most 100,000; got 1,000,000,000"),
    ({}, {}, "over must name at least one field"),
    (dict.fromkeys(("x", "y", "rate", "noise", "pause"), "1:2"), {}, "over takes at most 4 fields; got 5"),
]


@pytest.mark.parametrize(("over", "options", "line"), WRONG, ids=[line for *_, line in WRONG])
def test_a_mistake_is_one_line_before_anything_runs(disk, store: Store, over, options, line):
    with pytest.raises(UsageError) as error:
        ask(disk, over, store=store, **{k: Effort(**v) if k == "effort" else v for k, v in options.items()})
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)
    assert not store.root.exists()


def test_a_composed_name_is_refused_after_the_default_setting(disk, store: Store, at_once):
    with pytest.raises(UsageError, match=r"^toy\.disk has no claim 'other-late'; did you mean 'named-late'"):
        ds.lab.limits(disk, {"x": "0:1"}, claim="other-late", store=store)
    assert ds.lab.limits(disk, {"x": "0:1"}, claim="named-late", seeds=1, store=store).sizes["limit"] == 1


def test_without_adaptive_it_says_what_to_install(disk, store: Store, at_once, monkeypatch):
    monkeypatch.setitem(sys.modules, "adaptive", None)
    with pytest.raises(UsageError, match=r"^limits need adaptive: pip install 'dynascope\[limits\]'$"):
        ds.lab.limits(disk, {"x": "0:1"}, store=store)


def test_the_event_loop_of_the_process_stays_as_it_is():
    pytest.importorskip("uvloop", reason="without uvloop nothing could change")
    code = """
import asyncio, sys
from dynascope.lab.limit_search.search import _import_adaptive
_import_adaptive()
assert "adaptive" in sys.modules and "uvloop" not in sys.modules
assert "uvloop" not in type(asyncio.get_event_loop_policy()).__module__
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_the_same_question_places_the_same_points_however_it_is_carried_out(disk, store: Store, tmp_path: Path):
    from concurrent.futures import ThreadPoolExecutor

    question = {"over": {"x": "0:1", "y": "0:1"}, "effort": Effort(30, 1)}
    calm = carry_out(ask(disk, **question, store=store))
    with ThreadPoolExecutor(3) as threads:
        other = carry_out(ask(disk, **question, store=Store(tmp_path / "other")), threads)
    xr.testing.assert_identical(calm.data, other.data)
    assert (calm.folder / "limits.nc").read_bytes() == (other.folder / "limits.nc").read_bytes()


def test_the_default_setting_is_the_first_point(disk, store: Store, at_once):
    found = ds.lab.limits(disk, {"x": "0:1"}, points=1, store=store)
    assert found["values"].values.tolist() == [[0.2]]
    outside = ds.lab.limits(disk, {"x": "0.5:1"}, base={"y": 0.0}, seeds=1, store=store)
    assert outside.default.item() == 0.2
    assert outside.distance.item() == pytest.approx(1.0, abs=1e-6), "in shares of the range, from outside of it"


def test_the_report_has_a_page_with_the_answer_and_the_figure(disk, store: Store, tmp_path: Path, drawn):
    from dynascope.lab.report import write

    found = ds.lab.limits(disk, {"x": "0:1"}, base={"y": 0.0, "crash_beyond": 0.9}, points=8, seeds=1, store=store)
    folder = Path(found.attrs["folder"])
    index = write(store, tmp_path / "report", lambda _: disk)
    assert f'href="toy.disk/limits/{folder.name}/index.html"' in index.read_text()
    page = (tmp_path / "report" / "toy.disk" / "limits" / folder.name / "index.html").read_text()
    assert "the smallest change of the default setting that breaks it: x 0.2 → " in page
    assert "dynascope limits bounded.py::toy.disk --over x=0:1" in page
    assert "too far" in page, "the gap"
    assert (tmp_path / "report" / "toy.disk" / "limits" / folder.name / "figures" / "limits.svg").is_file()
    (folder / "points.csv").write_text("x\n")
    said: list[str] = []
    write(store, tmp_path / "report", lambda _: disk, warn=said.append)
    assert any("points.csv is damaged" in line for line in said)


def test_a_default_without_a_place_is_said_and_the_limit_is_found(disk, store: Store, at_once, drawn):
    found = ds.lab.limits(disk, {"y": "0.1:1:log"}, seeds=1, store=store)
    assert found.estimate.item() == pytest.approx(math.sqrt(RADIUS**2 - 0.04), rel=0.01)
    found = ds.lab.limits(disk, {"noise": "1e-3:1:log"}, base={"x": 0.65}, seeds=1, points=30, store=store)
    assert found.sizes["limit"] > 0
    assert math.isnan(found.distance)
    line = "the default setting has no place beside these ranges: a field is no number, or has no logarithm"
    assert line in found.text
