"""Phase diagrams: shares of phases, and the colors of their cells."""

import numpy as np
import pytest
import xarray as xr

from dynascope.figures import panels, phase_map, phase_shares

COLORS = ("#000000", "#ff0000")


def phases() -> xr.DataArray:
    values = np.array([[[0, 0], [0, 1]], [[1, 1], [1, 0]], [[1, 1], [1, 1]]])
    return xr.DataArray(values, {"rate": [0.1, 1.0, 10.0], "width": [10, 20], "seed": [0, 1]})


def test_shares_count_the_runs_of_each_phase():
    shares = phase_shares(phases(), ("lazy", "divergent"))
    assert shares.sel(phase="divergent").values.tolist() == [[0, 0.5], [1, 0.5], [1, 1]]
    assert (shares.sum("phase") == 1).all()


def test_a_cell_mixes_the_colors_of_its_phases():
    _, axes = panels(1)
    phase_map(axes, phase_shares(phases(), ("lazy", "divergent")), COLORS, x="rate", y="width", log="x")
    (mesh,) = axes.collections
    red = np.asarray(mesh.get_array())[..., 0]
    np.testing.assert_allclose(red, [[0, 1, 1], [0.5, 0.5, 1]])


def test_cells_end_halfway_to_the_next_one_on_the_scale_of_the_axis():
    _, axes = panels(1)
    phase_map(axes, phase_shares(phases(), ("lazy", "divergent")), COLORS, x="rate", y="width", log="x")
    assert axes.get_xlim() == pytest.approx((10**-1.5, 10**1.5))
    assert axes.get_ylim() == pytest.approx((5, 25))


def test_a_cell_without_runs_is_white():
    shares = phase_shares(phases(), ("lazy", "divergent")).where(lambda cells: cells.rate > 0.5)
    _, axes = panels(1)
    phase_map(axes, shares, COLORS, x="rate", y="width", legend=False)
    assert np.asarray(axes.collections[0].get_array())[:, 0].tolist() == [[1, 1, 1]] * 2
    assert axes.get_legend() is None


def test_colors_are_as_many_as_phases():
    _, axes = panels(1)
    with pytest.raises(ValueError, match="colors must be 2"):
        phase_map(axes, phase_shares(phases(), ("lazy", "divergent")), COLORS[:1], x="rate", y="width")
