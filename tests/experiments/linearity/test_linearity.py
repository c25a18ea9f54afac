"""linearity.hessian-scaling, linearity.kernel-change, linearity.polyak: what they are made of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import dynascope as ds
from dynascope.dynamics.monitor import Monitor, monitored_by
from dynascope.experiments.linearity.ball import norms_in_ball
from dynascope.experiments.linearity.growing_networks import CASES, Initialized, measure_case
from dynascope.experiments.linearity.hessian_scaling import HessianScaling
from dynascope.experiments.linearity.kernel_change import relu_kernel_slope_of
from dynascope.experiments.linearity.kernel_training import Trained, points, train
from dynascope.experiments.linearity.polyak import Polyak, keeps
from dynascope.lab.drawing import open_figures
from dynascope.models import dag_architectures as architectures
from dynascope.tasks.data import datasets, images


class Shelf(Monitor):
    """Keeps in memory what it is given."""

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, np.ndarray]] = {}

    def restore(self, name: str) -> Mapping[str, np.ndarray] | None:
        return self.kept.get(name)

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        assert name not in self.kept, "measured again"
        self.kept[name] = arrays


def test_a_network_that_was_measured_is_not_measured_again() -> None:
    experiment = HessianScaling(widths=(4, 8), networks=("fcn2-relu", "single-neuron-layer"), seeds=2)
    with monitored_by(Shelf()) as shelf:
        first = experiment.measure(0)
        assert isinstance(shelf, Shelf)
        assert set(shelf.kept) == set(experiment.networks)
        xr.testing.assert_identical(experiment.measure(0), first)


def test_the_full_setting_is_judged_and_drawn_with_all_its_networks() -> None:
    experiment, names = HessianScaling(), ("norm", "value", "random", "gradient", "hessian")

    class Made(Monitor):
        """Has every network measured already."""

        def restore(self, name: str) -> Mapping[str, np.ndarray]:
            wide = np.repeat(np.array(experiment._widths(name), float)[:, None], experiment.seeds, axis=1)
            return {f"gap_{each}": wide**-0.5 for each in names} | {"in_degree": wide}

    with monitored_by(Made()):
        measured = experiment.measure(0)
    predicted = experiment.predict(measured)
    reduced = experiment.reduce(measured, predicted)
    assert {*experiment.networks[1:], "norm-falls"} <= {claim.id for claim in experiment.judge(reduced)}
    with open_figures(lambda: experiment.draw(measured, predicted, reduced)) as figures:
        curves = figures["hessian-scaling"].axes[0].get_legend_handles_labels()[0]
    assert len({curve.get_color() for curve in curves}) == len(experiment.networks) + 1, "a color each, and the slope"


def test_every_case_fits_into_its_family() -> None:
    for case in CASES.values():
        assert len(case.sizes) == len(case.family.hidden)
        assert all(own <= most for own, most in zip(case.sizes, case.family.hidden, strict=True))


def test_a_width_gives_the_same_alone_and_in_the_program_of_wider_ones() -> None:
    """A two-layer ReLU network's norm is exact at every width, so its padding may not matter."""
    how = {"radius": jnp.asarray(0.5), "removed": jnp.asarray(0.0)}
    found = measure_case(CASES["fcn2-relu"], (9, 16), 5, np.arange(3, dtype=np.int32), **how)
    exact = np.repeat([[1 / 3], [1 / 4]], 3, axis=1)
    np.testing.assert_allclose(found["gap_norm"], exact, rtol=1e-5)
    np.testing.assert_allclose(found["gap_hessian"], exact * 0.5**2 / 2, rtol=1e-4)
    assert found["in_degree"].tolist() == [[9] * 3, [16] * 3]


def test_norms_in_a_ball_begin_at_the_start_and_are_of_the_network_that_is_given() -> None:
    key, sizes = jax.random.key(3), (5, 6, 7, 2)
    found = np.asarray(norms_in_ball(sizes, "linear", jnp.asarray([sizes]), key[None], jnp.asarray(0.5)))[0]
    for_net, for_x = jax.random.split(key)
    x = jax.random.normal(for_x, (5,))
    x = x * jnp.sqrt(5.0) / jnp.linalg.norm(x)
    net = architectures.fully_connected(sizes, key=for_net, activation="tanh", output="linear")
    exact = [float(ds.geometry.hessian_norm(lambda net, k=k: net(x)[k], net).value) for k in range(2)]
    np.testing.assert_allclose(found[:, 0], exact, rtol=1e-2)
    assert found.shape == (2, 5)
    assert np.ptp(found, axis=1).min() > 0.01, "elsewhere it is another"


def test_the_kinds_of_network_are_what_they_are_called() -> None:
    key = jax.random.key(0)
    skips = Initialized(CASES["skips"].family, 4, 3).network(key)
    assert [skip is None for skip in skips.skips] == [False, False, False, True]
    shared = Initialized(CASES["convolution"].family, 4, 3).network(key)
    assert shared.sizes == [5, 20, 20, 1]
    uneven = Initialized(CASES["uneven"].family, 4, 3).network(key)
    assert uneven.sizes == [3, 4, 8, 1]


def test_nothing_takes_the_place_of_missing_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))
    with pytest.raises(images.DataNotFoundError, match="no data set 'mnist' on this machine"):
        points("mnist", 6, 0)
    assert points("digits", 6, 0).x.shape == (6, 49)


def test_two_gaussians_have_as_many_dimensions_as_the_digits() -> None:
    found = points("gaussians", 6, 0)
    assert found.x.shape == (6, 49)
    assert found.x.std() == pytest.approx(1)
    assert sorted(found.y) == [-1, -1, -1, 1, 1, 1]


def test_digits_are_averaged_and_standardized(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(2.0)[:, None, None, None] * np.ones((2, 28, 28, 1))
    x[1, :4, :4] = 5
    made = datasets.Classes(x, np.array([-1.0, 1.0]), x[:0], np.zeros(0))
    monkeypatch.setattr(datasets, "two_classes", lambda *_, **__: made)
    found = points("mnist", 2, 0)
    assert found.x.shape == (2, 49)
    assert (found.x.mean(), found.x.std()) == pytest.approx((0, 1))
    assert np.unique(found.x[1]).size == 2


@pytest.fixture(scope="module")
def trace() -> xr.Dataset:
    """Two widths, two seeds, three points, in double precision."""
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((3, 4))
        member, seeds, y = Trained("fcn", 1, "relu", "linear", curvature=True), np.arange(2), np.array([1.0, -1.0, 1.0])
        how: dict[str, Any] = {"steps": 4, "record": np.array([0, 1, 4]), "precision": "float64"}
        return train(member, (5, 8), seeds.astype(np.int32), x, y, **how)


def test_the_kernel_and_its_worst_direction_are_those_of_the_small_network(trace: xr.Dataset) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).standard_normal((3, 4)))
        key = jax.random.fold_in(jax.random.key(jnp.int32(1)), jnp.int32(5))
        member = Trained("fcn", 1, "relu", "linear", largest=8)
        net = eqx.filter_jit(member.network)(4, jnp.int32(5), key, jnp.asarray(0.0), "linear")
        first, last = (group.weights for (group,) in net.edges)
        hidden, gates = x @ first[:5].T / 2, (x @ first[:5].T > 0).astype(float)
        outer = last[0, :5] / jnp.sqrt(5)
        kernel = (gates * outer) @ (gates * outer).T * (x @ x.T) / 4 + (gates * hidden) @ (gates * hidden).T / 5
        eigenvalues = jnp.linalg.eigvalsh(kernel)
        one = trace.sel(width=5, seed=1)
        np.testing.assert_allclose(one.polyak_smallest[0], eigenvalues[0], atol=1e-12)
        np.testing.assert_allclose(one.polyak_largest[0], eigenvalues[-1], rtol=1e-10)
        square = float(x[0] @ x[0])
        worst = ds.theory.linearity.bounds.relu_kernel_slope(float(kernel[0, 0]), square, 5, 4)
        np.testing.assert_allclose(one.worst.values.ravel()[0], worst, rtol=1e-10)
        residual = (gates * hidden) @ outer * 1.0 - jnp.array([1.0, -1.0, 1.0])
        np.testing.assert_allclose(one.loss[0], residual @ residual / 2, rtol=1e-10)
        np.testing.assert_allclose(one.polyak[0], ds.theory.linearity.bounds.polyak_ratio(residual, kernel), rtol=1e-10)


def test_the_kernel_has_not_changed_at_the_start_and_has_later(trace: xr.Dataset) -> None:
    assert np.all(trace.polyak_change.isel(step=0) == 0)
    assert np.all(trace.polyak_change.isel(step=-1) > 0)
    assert np.all(trace.polyak >= trace.polyak_smallest * (1 - 1e-9))


def test_the_closed_form_is_taken_at_each_width() -> None:
    kernel = xr.DataArray([[1.0, 4.0], [1.0, 1.0]], dims=("width", "seed"), coords={"width": [4, 16]})
    found = relu_kernel_slope_of(kernel, 10)
    np.testing.assert_allclose(found, [[1.0, 2.0], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("smallest", "loss", "kept"),
    [
        ([0.1, 0.08], [1.0, 1e-4], [True, True]),
        ([0.1, 0.04], [1.0, 1e-4], [False, True]),
        ([0.1, 0.08], [1.0, 1e-2], [False, False]),
        ([0.0, 0.08], [1.0, 1e-4], [False, False]),
        ([0.1, 0.08, 0.08], [1.0, 1.1, 1e-4], [False, False]),
    ],
)
def test_a_run_keeps_the_condition_or_not(smallest: list[float], loss: list[float], kept: list[bool]) -> None:
    """With these smallest eigenvalues and losses, and a bound of 1; of a linear output more is asked."""
    named = {"polyak_smallest": smallest, "polyak_largest": [1.0] * len(loss), "loss": loss, "polyak": smallest}
    measured = xr.Dataset({name: ("step", values) for name, values in named.items()})
    measured["hessian"] = ("hessian_step", [1.0])
    with np.errstate(invalid="ignore", divide="ignore"):
        reduced = Polyak().reduce(measured, xr.Dataset({"loss": ("step", np.ones(len(loss)))}))
    assert [bool(keeps(reduced, steady=steady)) for steady in (True, False)] == kept
