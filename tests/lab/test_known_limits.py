"""Claims of the documents whose limits theory knows: they are found to 2 %, with a quarter of the runs of a grid."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

import dynascope as ds
from dynascope.lab.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("optimized")]


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynascope.lab.limit_search.figures.draw", lambda _: ())


def test_catapults_end_at_two_and_at_four_over_the_kernel(store: Store):
    base = {"gammas": [0.001, 0.0003], "rates": [2.5, 2.8], "widths": [8, 16], "net_steps": 2, "net_seeds": 1}
    base |= {"samples": 2, "dim": 20, "seeds": 4, "steps": 1000}
    options = {"claim": "catapults", "preset": "quick", "seeds": 1, "resolution": 0.01, "store": store}
    found = ds.lab.limits("catapult.general-quadratic", {"rate": "1:5"}, base=base, **options)
    np.testing.assert_allclose(np.sort(found.estimate.values.ravel()), [2, 4], rtol=0.02)
    assert (found.uncertainty.values * 4 <= 0.04).all()
    assert found.seeds.sum() <= 101 / 4, "a grid of the same resolution has 101 points"
    assert found.theory.values.ravel().tolist() == [2, 4]
    assert found.smallest_change.item() == pytest.approx(2, rel=0.02), "nearer to 2.8 than 4 is"


def test_the_order_flips_where_the_strengths_of_theorem_4_1_are_equal(store: Store):
    base = {"first_signals": [1.0], "sigma": [1.0, 0.05], "samples": None, "dim": 4, "epochs": 4}
    base |= {"init_scale": 1e-4, "seeds": 2}
    options = {"base": base, "seeds": 1, "resolution": 0.01, "store": store}
    found = ds.lab.limits("concept.signal-order", {"second_signal": "0.5:3"}, **options)
    flip = sqrt(1 + 2 * (1 - 0.05**2))
    np.testing.assert_allclose(np.sort(found.estimate.values.ravel()), [1, flip], rtol=0.02)
    assert (found.uncertainty.values <= 0.01).all()
    assert found.seeds.sum() <= 101 / 4, "a grid of the same resolution has 101 points"
    np.testing.assert_allclose(np.sort(found.theory.values.ravel()), [1, flip])
