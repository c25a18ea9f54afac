"""Transfer over widths: exponents of what was measured, the grid of rates, and a best rate at the end of the grid."""

from __future__ import annotations

import jax
import numpy as np
import xarray as xr

from dynascope.experiments.features.width_transfer import WidthTransfer, exponents, hidden
from dynascope.models import MLP


def test_the_exponent_of_a_power_is_read_off_and_a_missing_value_leaves_none():
    widths = np.array([32.0, 64.0, 128.0])
    rows = xr.DataArray([3 / widths, [1.0, np.nan, 1.0]], dims=("parameterization", "width"), coords={"width": widths})
    np.testing.assert_allclose(exponents(rows), [-1, np.nan])


def test_a_best_rate_at_the_end_of_the_grid_is_none():
    names, size = ("parameterization", "width", "rate", "seed"), (1, 2, 3, 1)
    loss = np.array([[[3.0, 1.0, np.nan], [3.0, 2.0, 1.0]]]).reshape(size)
    measured = xr.Dataset({name: (names, np.ones(size)) for name in ("movement", "alignment", "critical")})
    measured = measured.assign(loss=(names, loss), critical_start=(names, np.ones(size)))
    measured = measured.assign(step_size=(names[:3], np.array([[[1.0, 2, 4], [1, 2, 4]]])))
    reduced = WidthTransfer(parameterizations=("mup",), widths=(4, 8)).reduce(measured, None)
    np.testing.assert_allclose(reduced.best_rate[0], [2, np.nan])
    np.testing.assert_allclose(reduced.sharpness_times_rate[0], [4, np.nan])


def test_the_last_hidden_layer_gives_the_output():
    net = MLP(3, 3, key=jax.random.key(0), width=5, out=1, activation="relu", parameterization="mup")
    x = jax.random.normal(jax.random.key(1), (4, 3))
    out = jax.vmap(lambda h: net.affine(2, h))(hidden(net, x))
    np.testing.assert_allclose(out, jax.vmap(net)(x), rtol=1e-6)
