"""concept.topological-order: losses over the hierarchy, and how they are read."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from dynascope.curves import order
from dynascope.experiments.concept.topological_order import TopologicalOrder, draw_hierarchy, rises

SMALL = {"mu": (1.0, 2.0), "sigma": (0.5, 0.5), "dim": 4, "samples": 64, "batch": 32, "epochs": 2, "seeds": 2}


def test_the_hierarchy_runs_from_nothing_to_the_test_point() -> None:
    small = TopologicalOrder(**SMALL)
    trace = small.train([(small.mu, small.sigma)], 0, hierarchy=True)
    assert trace.hierarchy_loss.sizes["node"] == 4
    assert np.all(trace.hierarchy_loss.isel(node=0) == 0)
    np.testing.assert_allclose(trace.hierarchy_loss.isel(node=-1), trace.test_loss, rtol=1e-5)


def test_with_biases_even_nothing_has_a_loss() -> None:
    small = TopologicalOrder(**SMALL, bias=True, judged_epochs=(1, 2))
    measured = small.measure(0)
    assert np.all(measured.loss.isel(node=0) > 0)
    assert small.at_epochs(measured.loss).shape == (2, 2, 4)


@pytest.mark.parametrize(
    ("means", "expected"), [([0.0, 1.0, 2.0], True), ([0.5, 0.5, 1.0], False), ([1.0, 0.0, 2.0], False)]
)
def test_levels_rise_strictly(means: list[float], expected: bool) -> None:
    assert rises(xr.DataArray(means, dims="level")) == expected


def test_the_diagram_has_a_dot_for_every_combination_and_a_line_for_every_edge() -> None:
    nodes = order.hierarchy(4)
    axes = Figure().subplots()
    dots = draw_hierarchy(axes, nodes, np.linspace(0, 2, len(nodes)))
    assert len(np.asarray(dots.get_offsets())) == 16
    assert len(axes.lines) == 32
    colors = np.asarray(dots.get_array())
    assert colors.max() == 1.0
