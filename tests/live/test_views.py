"""How a variable is drawn, and how much of it."""

from __future__ import annotations

import base64

import numpy as np
import pytest
import xarray as xr

from dynascope.live.views import MOST_MEMBERS, MOST_ROWS, MOST_VALUES, drawn_variables, encode, stored_layout


def array(*dims: str, **sizes: int) -> xr.DataArray:
    return xr.DataArray(np.zeros([sizes[dim] for dim in dims]), dims=dims)


@pytest.mark.parametrize(
    ("variable", "kind"),
    [
        (array("seed", "step", seed=3, step=9), "curve"),
        (array("step", "concept", step=9, concept=2), "path"),
        (array("step", "concept", step=9, concept=3), "curve"),
        (array("seed", "step", "mode", seed=3, step=9, mode=40), "profile"),
        (array("step", "row", "column", step=9, row=8, column=8), "picture"),
        (array("loss_time", "row", "column", loss_time=9, row=2, column=3), "curve"),
    ],
)
def test_a_variable_is_drawn_by_its_own_dimensions(variable, kind):
    layout = stored_layout("x", variable)
    assert layout is not None
    assert layout.kind == kind


@pytest.mark.parametrize(
    "variable",
    [
        array("seed", seed=4),
        array("step", step=1),
        array("step", "row", "column", step=3, row=500, column=500),
        xr.DataArray(np.array(["a", "b"]), dims="step"),
    ],
)
def test_what_does_not_move_is_left_out(variable):
    assert stored_layout("x", variable) is None


def test_a_long_trace_of_many_members_is_thinned_out_to_its_ends():
    layout = stored_layout("x", array("seed", "step", seed=1000, step=100_000))
    assert layout is not None
    assert len(layout.rows) <= MOST_ROWS
    assert len(layout.members) <= MOST_MEMBERS
    assert (layout.rows[0], layout.rows[-1]) == (0, 99_999)
    assert (layout.members[0], layout.members[-1]) == (0, 999)


def test_large_records_stay_small_on_their_way():
    for variable in (
        array("seed", "step", "mode", seed=50, step=5000, mode=2000),
        array("seed", "step", "row", "column", seed=9, step=5000, row=100, column=100),
    ):
        layout = stored_layout("x", variable)
        assert layout is not None
        assert len(layout.rows) * len(layout.members) * np.prod(layout.drawn_shape) <= 1.5 * MOST_VALUES


def test_members_are_named_and_share_the_color_of_their_setting():
    values = xr.DataArray(np.zeros((2, 3, 5)), {"rate": [0.1, 0.2], "step": range(5)}, ("rate", "seed", "step"))
    layout = stored_layout("x", values)
    assert layout is not None
    header = layout.header()
    assert header["members"][4] == "rate 0.2, seed 1"
    assert (header["color"], header["groups"]) == ("rate", [0, 0, 0, 1, 1, 1])


def test_what_is_not_finite_is_sent_as_not_a_number():
    sent = np.frombuffer(base64.b64decode(encode(np.array([1.0, np.inf, -np.inf, np.nan, 1e300]))), "<f4")
    np.testing.assert_array_equal(sent, [1, np.nan, np.nan, np.nan, np.nan])


def test_a_picture_of_several_channels_shows_the_first():
    values = np.random.default_rng(0).normal(size=(4, 3, 8, 8))
    (found,) = drawn_variables(xr.Dataset({"image": (("step", "channel", "row", "column"), values)}))
    sent = np.frombuffer(base64.b64decode(found["data"]), "<f4")
    np.testing.assert_allclose(sent, values[:, 0].ravel(), rtol=1e-6)


def test_pictures_in_colors_lie_beside_and_below_one_another():
    values = np.random.default_rng(0).integers(0, 256, size=(5, 4, 2, 8, 6, 3)).astype(np.uint8)
    (found,) = drawn_variables(xr.Dataset({"image": (("step", "prompt", "picture", "y", "x", "rgb"), values)}))
    assert (found["kind"], found["shape"]) == ("picture", [32, 12, 3])
    sent = np.frombuffer(base64.b64decode(found["data"]), "<f4").reshape(5, 32, 12, 3)
    np.testing.assert_array_equal(sent[:, 8:16, 6:12], values[:, 1, 1])
