"""Which concept is learned first: what the experiments on signal strength, diversity and depth have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from dynascope.curves import paths
from dynascope.experiments.concept.sim_experiment import signal_label
from dynascope.figures.forms import INK, THEORY, concept_plane, legend_beside, settings_colors
from dynascope.theory.concept import one_layer


def normalized(trace: xr.Dataset) -> xr.DataArray:
    """Outputs divided by their targets: every concept is learned at 1."""
    return trace.output / trace.mu


def bulge(trace: xr.Dataset) -> np.ndarray:
    """The signed area between path and chord, (signal, seed): positive where concept 2 is learned first."""
    z = normalized(trace).transpose("signal", "seed", "step", "concept").values
    return paths.signed_area(z[..., 0], z[..., 1])


def lead(trace: xr.Dataset) -> np.ndarray:
    """The value of z_2 - z_1 where its size is largest, (signal, seed): a second measure of the same."""
    z = normalized(trace).transpose("signal", "seed", "step", "concept").values
    return paths.largest_difference(z[..., 0], z[..., 1])


def strength_gap(trace: xr.Dataset, origin: bool) -> np.ndarray:
    """a_2 - a_1 of every setting, from a_p = sigma_p^2 + mu_p^2 / (number of clusters)."""
    a = trace.sigma**2 + trace.mu**2 / (trace.sizes["concept"] + origin)
    return (a.isel(concept=1) - a.isel(concept=0)).values


def one_layer_prediction(trace: xr.Dataset, step_size: float, origin: bool) -> xr.Dataset:
    """Theorem 4.1 from each run's own start, in its exact discrete form: `output` and `test_loss` as measured.

    `step_size` is that of a step on the loss of eq. (2.1): the learning rate, times 2/d for the mean-reduced loss.
    """
    start = jnp.asarray(trace.start.isel(start_step=0).transpose("signal", "seed", "row", "column").values, float)
    steps = jnp.asarray(trace.step.values)
    dim = start.shape[-1]

    def paths(mu: jax.Array, sigma: jax.Array, starts: jax.Array) -> jax.Array:
        a = one_layer.second_moment(mu, sigma, dim, origin)
        z = jnp.pad(mu, (0, dim - mu.shape[0]))
        return jax.vmap(lambda W0: one_layer.discrete_output_terms(steps, step_size, z, W0, a).output)(starts)

    mu = jnp.asarray(trace.mu.values, float)
    output = jax.vmap(paths)(mu, jnp.asarray(trace.sigma.values, float), start)
    target = jnp.pad(mu, ((0, 0), (0, dim - mu.shape[1])))[:, None, None, :]
    loss = jnp.sum((output - target) ** 2, axis=-1) / 2
    dims = ("signal", "seed", "step")
    return xr.Dataset(
        {
            "output": ((*dims, "concept"), np.asarray(output[..., : mu.shape[1]])),
            "test_loss": (dims, np.asarray(loss)),
        },
        {"step": trace.step, "seed": trace.seed, "concept": trace.concept},
    )


def draw_plane(
    axes: Axes,
    measured: xr.Dataset,
    predicted: xr.Dataset | None,
    label: str,
    markers_every: int,
    seed: int = 0,
) -> None:
    """Output trajectories, divided by their targets, one color per setting; markers at equal training times."""
    colors = settings_colors(measured.sizes["signal"])
    z = normalized(measured).isel(seed=seed)
    for index, color in enumerate(colors):
        path = z.isel(signal=index).transpose("step", "concept").values
        axes.plot(*path.T, color=color, label=signal_label(measured, label, index))  # pyright: ignore[reportArgumentType]
        axes.plot(*path[::markers_every].T, "o", color=color, markersize=3)
        if predicted is not None:
            theory = (predicted.output / measured.mu).isel(signal=index, seed=seed).transpose("step", "concept")
            axes.plot(*theory.values.T, **THEORY, label="Theorem 4.1" if index == len(colors) - 1 else None)
    axes.plot([0, 1], [0, 1], color=INK, alpha=0.15, linewidth=1)
    concept_plane(axes, (1.0, 1.0))
    axes.set_xlabel("output / target, concept 1")
    axes.set_ylabel("output / target, concept 2")
    legend_beside(axes)


def draw_bulge(axes: Axes, x: Sequence[float] | np.ndarray, area: np.ndarray, name: str, flip: float) -> None:
    """Signed area against the varied setting: every seed a dot, the median a line, the predicted flip dashed."""
    order = np.argsort(x)
    values, area = np.asarray(x)[order], area[order]
    for column in area.T:
        axes.plot(values, column, "o", color="#00798c", alpha=0.35, markersize=3.5, markeredgewidth=0)
    axes.plot(values, np.median(area, axis=1), color="#00798c", label="median over seeds")
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.axvline(flip, **THEORY, label="a₁ = a₂")
    axes.set_xlabel(name)
    axes.set_ylabel("signed area (> 0: concept 2 first)")
    axes.legend(loc="best")


def share_of_pairs(area: np.ndarray, expected_sign: np.ndarray, over: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """For every (setting, seed) in the settings `over` selects: whether the area has the expected sign."""
    chosen = over(expected_sign)
    return np.sign(area[chosen]) == expected_sign[chosen][:, None]
