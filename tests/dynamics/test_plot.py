"""A trace at a glance: panels, bands and small curves."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import dynascope as ds
from dynascope.figures import plot_trace, sparkline


@pytest.fixture(scope="module")
def run():
    probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness(every=10), "w": lambda w: w}
    return ds.descend(jnp.ones(3), lambda w: jnp.sum(w**2), optax.sgd(0.1), steps=60, record=5, probes=probes)


def test_every_probe_has_a_panel_and_entries_have_none(run):
    axes = run.plot().axes
    assert [one.get_title("left") for one in axes] == ["loss", "sharpness", "w"]
    assert [one.get_yscale() for one in axes] == ["log", "linear", "log"]
    assert [len(one.lines) for one in axes] == [1, 1, 3]
    np.testing.assert_allclose(axes[0].lines[0].get_ydata(), run.trace.loss, rtol=1e-6)
    np.testing.assert_allclose(axes[1].lines[0].get_xdata(), run.trace.sharpness_step)


def test_chosen_variables_are_drawn(run):
    assert [one.get_title("left") for one in run.plot(["sharpness_products"]).axes] == ["sharpness products"]
    with pytest.raises(ValueError, match=r"names must be variables of the trace, loss, .*; got 'los'"):
        run.plot(["los"])


def test_an_estimate_has_the_band_of_its_error():
    trace = xr.Dataset({"a": ("step", [1.0, 2.0]), "a_error": ("step", [0.5, 0.25])}, {"step": [0, 1]})
    (axes,) = plot_trace(trace).axes
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    assert (low, high) == (0.5, 2.25)


def test_many_members_are_drawn_as_their_median():
    values = np.arange(20.0)[:, None] + np.arange(4.0)
    values[3, 1], values[:, 3] = np.nan, np.nan
    axes = plot_trace(xr.Dataset({"a": (("seed", "step"), values)}, {"step": range(4)})).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [9.5, np.nanmedian(values[:, 1]), 11.5])


def test_a_notebook_shows_small_curves(run):
    page = run._repr_html_()
    table = page.partition("</table>")[0]
    assert "Trajectory(at step 60" in table
    assert [table.count(f"<td>{name}</td>") for name in ("loss", "sharpness", "w")] == [1, 1, 1]
    assert "sharpness_error" not in table.partition("<table>")[2]  # further entries have no rows
    assert table.count("<polyline") == 5  # one for each of the three weights
    assert f"<td>{float(run.trace.loss[-1]):.4g}</td>" in table


def test_a_notebook_shows_the_members_of_an_ensemble():
    many = ds.ensemble(
        lambda start: ds.Descent(start * jnp.ones(2), lambda w: jnp.sum(w**2), optax.sgd(0.1)),
        {"start": [1.0, 2.0, 3.0]},
        steps=5,
    )
    table = many._repr_html_().partition("</table>")[0]
    assert table.count("<polyline") == 3
    assert "diverged_at" not in table.partition("<table>")[2]
    last = many.trace.loss.values[:, -1]
    assert f"<td>{last[0]:.4g} to {last[-1]:.4g}</td>" in table


def test_a_small_curve_spans_its_box():
    drawn = sparkline(np.array([1.0, np.nan, 2.0, 3.0]), width=102, height=22)
    assert 'points="1.0,21.0 67.7,11.0 101.0,1.0"' in drawn
    assert sparkline(np.array([1.0, np.nan])) == ""
