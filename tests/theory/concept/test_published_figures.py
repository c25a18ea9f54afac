"""The published theory figures, with the printed second moment and with the squared one (both integrators, float64)."""

import numpy as np
import pytest

from dynascope.curves.stages import rises
from dynascope.theory.concept.published_figures import PUBLISHED_FIGURES, run_published_figure

BY_NAME = {figure.name: figure for figure in PUBLISHED_FIGURES}


@pytest.mark.parametrize("integrator", ["jacobian_euler", "factor_gd"])
@pytest.mark.parametrize("figure", PUBLISHED_FIGURES, ids=lambda figure: figure.name)
def test_the_table_of_rises(figure, integrator):
    printed, coded = (run_published_figure(figure, power, integrator) for power in (1.0, 2.0))
    small, large = (rises(run.test_loss.values, 1e-4) for run in (printed, coded))
    assert (len(small), len(large)) == (figure.rises_printed, figure.rises_coded)
    assert small.sum() < large.sum()
    if integrator == "factor_gd":
        assert np.diagonal(coded.W, axis1=1, axis2=2).min() > 0


def test_figure_5_ends_where_the_table_says():
    printed, coded = (run_published_figure(BY_NAME["5"], power, "jacobian_euler") for power in (1.0, 2.0))
    assert printed.test_loss[0] == pytest.approx(1.4698, abs=1e-4)
    assert printed.test_loss[-1] == pytest.approx(4.7e-6, rel=0.02)
    assert coded.test_loss[-1] == pytest.approx(7.5e-4, rel=0.02)


def test_the_failure_of_figure_10_is_an_artifact_of_the_square_and_of_iterating_the_jacobian():
    printed = run_published_figure(BY_NAME["10"], 1.0, "jacobian_euler")
    np.testing.assert_allclose(printed.W[-1], np.eye(3), atol=1e-8)
    coded = run_published_figure(BY_NAME["10"], 2.0, "jacobian_euler")
    assert coded.test_loss[-1] == pytest.approx(0.254, abs=1e-3)
    np.testing.assert_allclose(np.diagonal(coded.W[-1]), [-0.019, 1, 1], atol=1e-3)
    factor = run_published_figure(BY_NAME["10"], 2.0, "factor_gd")
    assert factor.W[-1, 0, 0] == pytest.approx(0.081, abs=1e-3)
    assert factor.W[-1, 0, 0] > factor.W[-100, 0, 0]


def test_with_the_printed_equation_the_rises_are_those_of_an_independent_program():
    known = {"5": [0.07], "8, code's setting": [0.58], "8, caption's setting": [0.70, 1.16]}
    known["9, code's setting"] = [1.8, 0.48]
    for name, percent in known.items():
        run = run_published_figure(BY_NAME[name], 1.0, "factor_gd")
        np.testing.assert_allclose(100 * rises(run.test_loss.values, 1e-4), percent, rtol=0.05)
