"""What an experiment opens on: its stored run, or the evidence that ships; and what a reader is told of its panels."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from dynascope.lab import registry
from dynascope.live import captions, showcase
from dynascope.live.names import names_of
from dynascope.live.views import drawn_variables

ID = "tiny.spiral"
LEAD = "concept.signal-order"


def opening(client, **form):
    return client.post("/api/opening", json=form).json()


def test_the_usual_setting_opens_on_its_stored_run(client, filled, stored):
    first = next(run for run in filled.runs(ID)[0] if run.config["rate"] == 0.99 and not run.sweep)
    assert opening(client, id=ID, preset="quick") == {"digest": first.digest}
    assert opening(client, id=ID, preset="quick", changes={"rate": "0.95"}) == {"digest": stored.digest}


def test_another_setting_that_is_not_stored_opens_on_nothing(client):
    found = opening(client, id=ID, preset="quick", changes={"rate": "0.123"})
    assert (found["digest"], found["claims"], found["measured"]) == ("", [], [])
    assert opening(client, id=LEAD, preset="quick", control=True)["claims"] == []


def test_an_experiment_without_a_stored_run_opens_on_what_ships(client):
    found = opening(client, id=LEAD, preset="quick")
    assert found["digest"] == ""
    assert found["claims"][0]["id"] == "signal-first"
    assert found["claims"][0]["headline"].endswith("% of 15")
    views = {view["name"]: view for view in found["measured"]}
    assert views["output"]["group_labels"][0] == "μ = (0.5, 2)"
    image = client.get(f"/assets/{found['picture']}")
    assert (image.headers["content-type"], image.content[8:12]) == ("image/webp", b"WEBP")


def test_what_ships_is_told_without_loading_the_experiment(client):
    found = client.get(f"/api/showcase/{LEAD}").json()
    assert (found["is_stored"], found["captions"]["scene"]) == (False, "concepts")
    assert client.get("/api/showcase/no.such").json()["measured"] == []


def test_the_server_starts_without_heavy_imports():
    heavy = {"jax", "matplotlib", "numpy", "pandas", "xarray"}
    code = f"import sys, dynascope.live.serving; sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_shipped_traces_are_small_and_of_experiments():
    sizes = {path.name: path.stat().st_size for path in showcase.SHOWCASE.glob("*.json")}
    assert sum(sizes.values()) < 200_000
    assert set(showcase.moving()) <= {entry.id for entry in registry.entries()}


def test_the_wheel_takes_the_cards_and_the_evidence_along():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {source: Path(target).name for source, target in included.items()} == {
        "docs/pictures/cards": "cards",
        "docs/evidence.json": "evidence.json",
    }
    assert all(Path(target).parent == Path("dynascope/live/showcase") for target in included.values())


def test_captions_are_of_experiments_and_their_variables():
    ids = {entry.id for entry in registry.entries()}
    assert set(captions._table()) - {"variables"} <= ids
    for id in showcase.moving():
        told, shipped = captions.captions(id), {view["name"] for view in showcase.views(id)["measured"]}
        assert set(told["main"]) <= shipped
        assert all(told["panels"][name]["title"] and told["panels"][name]["look"] for name in told["main"])


def test_members_are_named_by_the_values_beside_them():
    step = ("step", np.arange(4))
    data = xr.Dataset(
        {
            "loss": (("signal", "case", "step"), np.ones((2, 2, 4))),
            "mu": (("signal", "concept"), [[0.5, 2.0], [1.0, 2.0]]),
            "result": (("case",), [7.0, 8.0]),
        },
        {"signal": [0, 1], "step": step, "kind": ("case", ["wide", "deep"]), "alpha": ("case", [0.1, 0.1])},
    )
    assert names_of(data) == {"signal": ["μ = (0.5, 2)", "μ = (1, 2)"], "case": ["kind wide", "kind deep"]}
    (view,) = drawn_variables(data)
    assert view["members"][0] == "μ = (0.5, 2), kind wide"
    assert view["has_values"]


@pytest.mark.parametrize("labels", [[0.1, 0.2], ["a", "b"], [3, 4]])
def test_labels_that_are_values_stay(labels):
    data = xr.Dataset({"loss": (("rate", "step"), np.ones((2, 3))), "mu": ("rate", [5.0, 6.0])}, {"rate": labels})
    assert names_of(data) == {}
