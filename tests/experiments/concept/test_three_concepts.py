"""The cube of three concepts, on shares that are known; and what theory says of the order."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.concept.cube import deficits, out_of_order
from dynascope.experiments.concept.diffusion_experiment import Drawing
from dynascope.experiments.concept.three_concepts import ThreeConcepts
from dynascope.tasks.image_concepts import ImageConcepts
from dynascope.theory.concept.one_layer import strengths

PROMPTS = [f"{i:03b}" for i in range(8)]
CONCEPTS = ["size", "shape", "color"]


def painted(learned: dict[str, float], steps: int = 5) -> xr.Dataset:
    """Shares of each concept in each combination: that of the prompt, times what is learned of the combination."""
    values = np.array([[learned.get(name, 1.0) * int(digit) for digit in name] for name in PROMPTS])
    formed = np.ones((1, 1, steps, 8))
    formed[:, :, :2] = 0
    dims = ("separation", "seed", "step", "prompt", "concept")
    coords = {"separation": [0.2], "seed": [0], "step": np.arange(steps), "prompt": PROMPTS, "concept": CONCEPTS}
    shares = np.broadcast_to(values, (1, 1, steps, 8, 3)).copy()
    return xr.Dataset({"concepts": (dims, shares), "concepts_formed": (dims[:-1], formed)}, coords)


def test_what_is_learned_lacks_nothing_and_counts_from_the_first_formed_pictures():
    found = deficits(painted({}))
    assert found.isnull().sum("step").values.max() == 2
    assert float(np.abs(found).max()) == 0
    assert found.level.values.tolist() == [1, 1, 2, 1, 2, 2, 3]


def test_a_combination_lacks_what_asking_for_its_concepts_does_not_change():
    found = deficits(painted({"111": 0.25, "011": 0.5})).isel(separation=0, seed=0, step=-1)
    assert float(found.sel(combination="111")) == pytest.approx(0.75)
    assert float(found.sel(combination="011")) == pytest.approx(0.5)
    assert float(found.sel(combination="110")) == 0


def test_a_network_that_paints_all_concepts_whatever_it_is_asked_for_lacks_all_of_them():
    blind = painted({})
    blind["concepts"][...] = 1.0
    assert float(deficits(blind).min()) == 1


def test_pairs_are_out_of_order_where_the_smaller_combination_lacks_more():
    ordered = deficits(painted({"111": 0.2, "110": 0.6})).mean("step")
    assert float(out_of_order(ordered).max()) == 0
    broken = deficits(painted({"001": 0.2})).mean("step")  # color alone lacks more than the three that contain it
    assert float(out_of_order(broken).max()) == pytest.approx(3 / 12)


def test_theory_puts_shape_first_by_conditions_and_size_by_pictures():
    experiment = ThreeConcepts(**ThreeConcepts.presets["quick"])
    signal = xr.DataArray([[0.28, 0.19, 0.12]], {"separation": [0.2], "concept": CONCEPTS}, ("separation", "concept"))
    measured = xr.Dataset({"signal": signal, "spread": 0.1 * signal})
    predicted = experiment.predict(measured)
    order = predicted.strength.isel(separation=0).idxmax("concept")
    assert order.sel(space=["told", "pixels"]).values.tolist() == ["shape", "size"]
    told = ImageConcepts(0.2, **dict(Drawing.of(experiment))).condition_signals()
    a = strengths(*(np.asarray(part) for part in told), origin=True)
    np.testing.assert_allclose(predicted.strength.sel(space="told").isel(separation=0), a, rtol=1e-6)
    z = 1 - np.exp(-a * 3.0)
    leader = predicted.leader.values
    for name, wanted in zip(CONCEPTS, z, strict=True):
        path = predicted.path.sel(space="told", concept=name).isel(separation=0)
        assert np.interp(z.max(), leader, path) == pytest.approx(wanted, abs=2e-3)
