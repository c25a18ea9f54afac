"""What the server answers: experiments, forms with their errors, runs, traces, sweeps; nothing outside the store."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import xarray as xr

from dynascope.lab.claims import claim
from dynascope.lab.fields import parsed, shown
from dynascope.live.stored import claim_row

ID = "tiny.spiral"


def numbers(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def test_experiments_are_listed_with_their_last_verdict(client):
    found = {one["id"]: one for one in client.get("/api/experiments").json()}
    assert found[ID]["title"] == "Does the spiral shrink?"
    assert found[ID]["verdict"] == "holds"
    assert found["concept.signal-order"]["verdict"] is None


def test_an_unknown_experiment_is_told_in_the_words_of_the_command(client):
    answer = client.get("/api/experiments/tiny.spirl")
    assert answer.status_code == 422
    assert answer.json()["error"] == "no experiment 'tiny.spirl'; did you mean 'tiny.spiral'?"


def test_a_form_that_is_fine_has_its_command_and_python(client):
    asked = {"id": ID, "preset": "quick", "control": True, "seed": "3", "changes": {"steps": "15"}}
    found = client.post("/api/check", json=asked).json()
    assert found["command"] == "dynascope run tiny.spiral --preset quick --control --set steps=15 --seed 3"
    asked = "Setting.parse('tiny.spiral', preset='quick', control=True, changes={'steps': 15}, seed=3)"
    assert asked in found["python"]
    compile(found["python"], "python", "exec")


def test_each_wrong_field_has_its_own_line(client):
    asked = {"id": ID, "preset": "quick", "changes": {"rate": "7", "steps": "many", "style": "fanc"}}
    answer = client.post("/api/check", json=asked)
    assert answer.status_code == 422
    assert answer.json()["fields"] == {
        "rate": "rate must be a number > 0 and < 2; got 7",
        "steps": "steps must be an integer ≥ 1; got 'many'",
        "style": "style must be plain or fancy; got 'fanc'; did you mean 'fancy'?",
    }


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", "true", str(2**32)])
def test_a_wrong_seed_has_its_line(client, seed):
    answer = client.post("/api/run", json={"id": ID, "seed": seed})
    assert answer.status_code == 422
    assert answer.json()["fields"]["seed"] == f"seed must be an integer from 0 to 4294967295; got {shown(parsed(seed))}"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"id": 3}', b'{"id": "tiny.spiral", "changes": {"rate": 1}}', b"[" * 5000]
)
def test_a_body_that_is_no_form_is_refused(client, body):
    assert client.post("/api/run", content=body).status_code == 422


def test_an_unknown_preset_and_field_are_told(client):
    assert "no preset 'quik'" in client.post("/api/check", json={"id": ID, "preset": "quik"}).json()["error"]
    assert "no field 'size'" in client.post("/api/check", json={"id": ID, "changes": {"size": "1"}}).json()["error"]


def test_runs_are_listed_with_what_differs(client):
    latest, first = client.get(f"/api/runs/{ID}").json()
    assert (latest["differs"], first["differs"]) == ({"rate": "0.95"}, {"rate": "0.99"})
    assert (latest["holds"], latest["state"]) == (1, "complete")
    assert "folder" not in latest
    assert client.get("/api/runs/concept.signal-order").json() == []


def test_a_run_has_its_claims_command_and_figures(client, stored):
    found = client.get(f"/api/runs/{ID}/{stored.digest}").json()
    assert found["claims"][0]["measured"] == "100 % [34, 100] of 2"
    assert found["command"].endswith("tiny.spiral --preset quick --set rate=0.95")
    assert found["traces"] == ["measured", "predicted", "reduced"]
    figure = client.get(f"/api/runs/{ID}/{stored.digest}/figures/spiral.svg")
    assert figure.headers["content-type"] == "image/svg+xml"
    assert "script-src" not in figure.headers["content-security-policy"], "a figure runs nothing"
    for name in ("nothing.svg", "spiral.html", "manifest.json"):
        assert client.get(f"/api/runs/{ID}/{stored.digest}/figures/{name}").status_code == 404


def test_the_sentences_of_a_claim_are_shown_as_meant_and_escaped():
    row = claim_row(claim("a", "`rate` < 2, x^2 <b>", measured=1, expected=1, holds=False, post_hoc="see *there*"))
    assert row["statement"] == "<code>rate</code> &lt; 2, x<sup>2</sup> &lt;b&gt;"
    assert row["post_hoc"] == "see <em>there</em>"


def test_labeled_numbers_keep_their_order():
    row = claim_row(claim("a", "It falls", measured={"0.5": 3, "1": 2}, expected="falling", holds=True))
    assert (row["measured"], row["expected"]) == ({"pairs": [("0.5", "3"), ("1", "2")]}, "falling")


def test_the_views_of_a_run_are_its_curves(client, stored):
    found = client.get(f"/api/runs/{ID}/{stored.digest}/views").json()
    views = {one["name"]: one for one in found["measured"]}
    assert (views["place"]["kind"], views["size"]["kind"]) == ("path", "curve")
    assert views["place"]["members"] == ["start 1", "start 2"]
    measured = stored.measured()
    np.testing.assert_allclose(numbers(views["place"]["data"]), measured.place.values.ravel())
    assert [one["name"] for one in found["predicted"]] == ["size"]


def test_the_explorer_draws_a_variable_over_any_of_its_dimensions(client, stored):
    address = f"/api/runs/{ID}/{stored.digest}/lines/measured"
    found = client.get(address, params={"variable": "place", "x": "step", "color": "start", "facet": "concept"}).json()
    assert [panel["label"] for panel in found["panels"]] == ["concept 1", "concept 2"]
    assert found["colors"] == ["1", "2"]
    line = found["panels"][1]["lines"][0]
    np.testing.assert_allclose(numbers(line["y"]), stored.measured().place.isel(start=0, concept=1))
    middle = client.get(address, params={"variable": "size", "x": "step", "rest": "median"}).json()
    np.testing.assert_allclose(
        numbers(middle["panels"][0]["lines"][0]["y"]), stored.measured()["size"].median("start"), rtol=1e-6
    )


def test_a_dimension_that_is_not_there_is_told(client, stored):
    address = f"/api/runs/{ID}/{stored.digest}/lines/measured"
    assert "did you mean 'place'" in client.get(address, params={"variable": "plase"}).json()["error"]
    wrong = client.get(address, params={"variable": "size", "x": "node"}).json()["error"]
    assert wrong == "x must be a dimension of size: start, step"
    twice = client.get(address, params={"variable": "size", "x": "step", "color": "step"}).json()["error"]
    assert twice == "x, color and facet must be different dimensions"


def test_traces_are_downloaded_as_netcdf_and_csv(client, stored):
    address = f"/api/runs/{ID}/{stored.digest}"
    answer = client.get(f"{address}/measured.nc")
    assert "attachment" in answer.headers["content-disposition"]
    with xr.open_dataset(io.BytesIO(answer.content), engine="h5netcdf") as found:
        np.testing.assert_array_equal(found["size"], stored.measured()["size"])
    lines = client.get(f"{address}/measured.csv", params={"variable": "size"}).text.splitlines()
    assert lines[0] == "start,step,size"
    assert len(lines) == 1 + stored.measured()["size"].size


def test_a_sweep_is_a_map_whose_cells_are_runs(client, filled):
    (listed,) = client.get("/api/sweeps").json()
    address = f"/api/sweeps/{ID}/{listed['digest']}"
    found = client.get(address).json()
    assert [key["values"] for key in found["keys"]] == [["0.9", "1.05", "1.1"], ["plain", "fancy"]]
    (claim,) = [layer for layer in found["layers"] if layer["of"] == "claim"]
    assert (claim["name"], claim["values"]) == ("shrinks", [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    run = client.get(f"{address}/run", params={"place": "2,1", "seed": "1"}).json()
    config = client.get(f"/api/runs/{run['id']}/{run['digest']}").json()
    assert (config["settings"]["rate"], config["settings"]["style"], config["seed"]) == ("1.1", "fancy", 1)
    assert client.get(f"{address}/run", params={"place": "1,9"}).status_code == 422
    assert client.get(f"{address}/run", params={"place": "a"}).status_code == 422
    assert client.get(f"{address}/run", params={"place": "0,0", "seed": "7"}).status_code == 422


@pytest.mark.parametrize("up", ["..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e%2fetc", "....//", "..%5c..", "%00", "."])
def test_no_path_leads_out_of_the_store(client, stored, filled, up):
    outside = filled.root.parent / "secret.nc"
    outside.write_text("hidden words")
    run = f"/api/runs/{ID}/{stored.digest}"
    for address in (
        f"/assets/{up}/server.py",
        f"/assets/{up}%2fserver.py",
        f"/api/runs/{up}",
        f"/api/runs/{up}/secret",
        f"/api/runs/{ID}/{up}",
        f"/api/runs/{ID}/{up}%2f{stored.digest}/views",
        f"{run}/{up}/secret.nc",
        f"{run}/{up}%2f{up}%2fsecret.nc",
        f"{run}/figures/{up}%2fspiral.svg",
        f"{run}/figures/{up}/{up}/manifest.json",
        f"{run}/variables/{up}",
        f"/api/sweeps/{up}/{up}",
        f"/api/sweeps/{ID}/{up}",
        f"/api/experiments/{up}",
        f"/api/experiments/{up}%2ftiny.py",
    ):
        status, body = client.status_and_body(address)
        assert status in (404, 422) or body == b"[]", address
        assert b"hidden words" not in body, address


def test_a_file_that_is_not_an_experiments_id_is_not_loaded(client):
    for name in ("tiny.py", "tiny.py::tiny.spiral"):
        answer = client.get(f"/api/experiments/{name}")
        assert answer.status_code == 422
        assert "named by its id" in answer.json()["error"]
