"""What the experiments on the symmetric model f(x) = U U^T x share: training it, scanning thousands of starts, and the
theory's word from the start alone.

Steps are those of gradient descent on U with the given learning rate on the loss of eq. (4.1): one of them is
`2 * learning_rate` of the paper's clock. Starts come from NumPy seeds, so that a seed means the same start everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.curves import stages
from dynascope.lab.experiment import Experiment, Values
from dynascope.probes import basic
from dynascope.probes.probe import probe
from dynascope.tasks.structured_identity import StructuredIdentity
from dynascope.theory.concept import stage_times
from dynascope.theory.concept.jacobian_recursion import factor_gd, jacobian_of
from dynascope.theory.concept.linear_loss import out_of_distribution_loss, population_loss
from dynascope.theory.concept.minor_entries import minor_entry
from dynascope.theory.concept.starts import aligned_factor, gaussian_factor

SCAN_CHUNK = 4096
"""Members of a scan whose curves are in memory at one time."""


class SymmetricLearner(eqx.Module):
    """An ensemble member: gradient descent on U for the population loss, from the U(0) given as `start`."""

    def __call__(self, start: Array, mu: Array, sigma: Array, learning_rate: Array) -> ds.Descent:
        task = StructuredIdentity(mu, sigma, start.shape[0], norm="sum")
        probes = {
            "W": probe(lambda moment: moment.model.matrix(), dims=("row", "column")),
            "U": probe(lambda moment: moment.model.factor, dims=("row", "width")),
            "test_loss": probe(lambda moment: task.test_loss(moment.model)),
            "loss": basic.loss(),
        }
        return ds.Descent(ds.models.Symmetric(start), task, optax.sgd(learning_rate), probes=probes)


class StartScan(eqx.Module):
    """The same descent with its gradient written out (`factor_gd`): several times faster for matrices this small."""

    def __call__(self, start: Array, mu: Array, sigma: Array, learning_rate: Array) -> ds.Map:
        task = StructuredIdentity(mu, sigma, start.shape[0], norm="sum")
        a, point = task.second_moment, task.test_point
        probes = {
            "test_loss": lambda U: out_of_distribution_loss(jacobian_of(U), point),
            "loss": lambda U: population_loss(jacobian_of(U), a),
            "majors": probe(lambda moment: jnp.sum(moment.model**2, axis=1), dims=("concept",)),
        }
        return ds.Map(lambda U: factor_gd(U, a, 2 * learning_rate), start, probes=probes)


class SymmetricExperiment(Experiment):
    """Fields that every experiment on the symmetric model has."""

    precision: Literal["float32", "float64"] = "float64"
    mu: Values = (1.0, 2.0)
    sigma: Values = (0.05, 0.05)
    scale: float = Field(0.1, gt=0)
    """Standard deviation τ of the entries of U(0)."""
    learning_rate: float = Field(0.01, gt=0)
    steps: PositiveInt = 3000
    tolerance: float = Field(0.01, gt=0, lt=1)
    """The loss has turned when it has come back by this share of its first value."""

    @model_validator(mode="after")
    def _as_many_spreads_as_signals(self) -> SymmetricExperiment:
        if len(self.mu) != len(self.sigma):
            raise ValueError(f"sigma needs as many entries as mu, {len(self.mu)}; it has {len(self.sigma)}")
        return self

    @property
    def strengths(self) -> Float[np.ndarray, " s"]:
        """a_p = sigma_p^2 + mu_p^2 / s."""
        return strengths(self.mu, self.sigma)

    def gaussian(self, seeds: Any, scale: float | None = None, width: int | None = None) -> np.ndarray:
        """U(0) with independent entries N(0, scale^2), one per NumPy seed."""
        return gaussian_factor(seeds, self.scale if scale is None else scale, len(self.mu), width)

    def aligned(self, seeds: Any, scale: float, spread: float) -> np.ndarray:
        """U(0) near rank one, every entry of W(0) positive: `scale * (spread * G + [1 0 ... 0])`."""
        return aligned_factor(seeds, scale, spread, len(self.mu))

    def train(self, starts: np.ndarray, record: Any = 1, **changes: Any) -> xr.Dataset:
        """Descend from every start by automatic differentiation; `W`, `U`, `test_loss`, `loss` at every step."""
        run = self._run(changes)
        return ds.ensemble(SymmetricLearner(), {"start": starts}, record=record, **run)

    def scan(self, starts: np.ndarray, tolerances: Sequence[float] | None = None, **changes: Any) -> xr.Dataset:
        """Descend from thousands of starts and keep little of each: see `scan_starts`."""
        run = self._run(changes)
        return scan_starts(starts, tolerances or (self.tolerance,), run["fixed"], run["steps"])

    def _run(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        set_up = self.model_copy(update=dict(changes))
        number = np.dtype(self.precision).type
        fixed = {name: number(getattr(set_up, name)) for name in ("mu", "sigma", "learning_rate")}
        return {"fixed": fixed, "steps": set_up.steps}


def strengths(mu: Sequence[float], sigma: Sequence[float]) -> Float[np.ndarray, " s"]:
    """a_p = sigma_p^2 + mu_p^2 / s, the combined strength of signal and diversity."""
    return np.asarray(sigma, float) ** 2 + np.asarray(mu, float) ** 2 / len(mu)


def own_seeds(seed: int, count: int) -> np.ndarray:
    """NumPy seeds of random starts: from a million on, so that none of them is one of the reference's (0 to 40,000)."""
    return 1_000_000 * (1 + seed) + np.arange(count)


def scan_starts(starts: np.ndarray, tolerances: Sequence[float], fixed: Mapping[str, Any], steps: int) -> xr.Dataset:
    """Per start: `descents` at each tolerance, the largest `rise` of the training loss (over its first value), the step
    `half_step` at which each major reaches 1/2 (nan: never), and the last `majors` and `test_loss`.

    The curves are looked at some 600 times, every step at first and every per cent of the time passed later on.
    """
    record = ds.log_steps(steps, 1000)
    parts = []
    for first in range(0, len(starts), SCAN_CHUNK):
        trace = ds.ensemble(
            StartScan(), {"start": starts[first : first + SCAN_CHUNK]}, steps=steps, record=record, fixed=fixed
        )
        majors = trace.majors.transpose("start", "concept", "step").values
        counts = np.stack([stages.descents(trace.test_loss.values, tolerance) for tolerance in tolerances])
        loss = trace.loss.values
        parts.append(
            xr.Dataset(
                {
                    "descents": (("turn_tolerance", "start"), counts),
                    "rise": ("start", _largest_rise(loss)),
                    "half_step": (("start", "concept"), stages.first_crossing(majors, 0.5, record).time),
                    "majors": (("start", "concept"), majors[..., -1]),
                    "test_loss": ("start", trace.test_loss.values[:, -1]),
                }
            )
        )
    return xr.concat(parts, "start").assign_coords(turn_tolerance=np.asarray(tolerances))


def _largest_rise(loss: np.ndarray) -> np.ndarray:
    """Over the first value; infinite where the run diverged."""
    with np.errstate(invalid="ignore", over="ignore"):
        rise = np.max(np.diff(loss, axis=-1), axis=-1) / loss[:, 0]
    return np.where(np.isfinite(rise), rise, np.inf)


def predicted_half_steps(
    starts: np.ndarray, a: np.ndarray, learning_rate: float, naive: bool = False
) -> Float[np.ndarray, "*start s"]:
    """The step at which each major reaches 1/2, from the start alone: by its pivots
    (`theory.concept.stage_times`) or by the naive guess, from w_kk(0)."""
    U, strength = jnp.asarray(starts), jnp.asarray(a)
    if naive:
        pivots = stage_times.naive_log_pivots(jacobian_of(U))
    else:
        pivots = stage_times.log_pivots_of_factor(U, strength)
    half = stage_times.half_time(pivots, strength)
    return np.asarray(stage_times.steps_at(half, strength, 2 * learning_rate))


def staged_path(
    start: Float[np.ndarray, "s width"], a: Float[np.ndarray, " s"], learning_rate: float, steps: np.ndarray
) -> Float[np.ndarray, "time s s"]:
    """W(t) from U(0) alone, stage by stage and without noise terms.

    Eliminating the strongest direction first writes W(0) = sum_i c_i c_i^T / c_ii, where c_i has only entries of
    directions not stronger than i. Each c_ii follows the logistic curve from its pivot and each c_ij the closed form of
    a minor entry (`theory.concept.minor_entries`); the sum is then a prediction for every entry, exact at 0.
    """
    order = np.argsort(-a)
    b, rest = a[order], (start @ start.T)[np.ix_(order, order)]
    floor = len(a) * np.finfo(float).eps * np.diagonal(rest).copy()
    columns = np.zeros_like(rest)
    for i in range(len(a)):
        if rest[i, i] > floor[i]:
            columns[i, i:] = rest[i, i:]
            rest = rest - np.outer(columns[i], columns[i]) / columns[i, i]
    with np.errstate(divide="ignore"):
        log_pivots = np.log(np.diagonal(columns))
    path = np.zeros((len(steps), *rest.shape))
    for i in np.flatnonzero(np.isfinite(log_pivots)):
        times = np.asarray(steps) * np.log1p(2 * learning_rate * b[i]) / b[i]
        entries = np.zeros((len(steps), len(a)))
        odds = np.log1p(-np.exp(log_pivots[i])) - log_pivots[i]
        entries[:, i] = 1 / (1 + np.exp(odds - 2 * b[i] * times))
        for j in range(i + 1, len(a)):
            weaker = max(log_pivots[j], -700.0)
            given = (times, columns[i, j], b[i], b[j], log_pivots[i], weaker)
            entries[:, j] = np.asarray(minor_entry(*(jnp.asarray(each) for each in given)))
        path += entries[:, :, None] * entries[:, None, :] / entries[:, i, None, None]
    back = np.argsort(order)
    return path[:, back][:, :, back]


def predict_runs(measured: xr.Dataset, mu: Sequence[float], sigma: Sequence[float], learning_rate: float) -> xr.Dataset:
    """The theory's word on trained runs: `W` and `test_loss` at the recorded steps, `half_step`, `naive_half_step`."""
    a, steps, starts = strengths(mu, sigma), measured.step.values, measured.U.isel(step=0).values
    W = np.stack([staged_path(start, a, learning_rate, steps) for start in starts])
    loss = np.asarray(out_of_distribution_loss(jnp.asarray(W), jnp.asarray(mu, float)))
    half = [predicted_half_steps(starts, a, learning_rate, naive) for naive in (False, True)]
    return xr.Dataset(
        {
            "W": (("start", "step", "row", "column"), W),
            "test_loss": (("start", "step"), loss),
            "half_step": (("start", "concept"), half[0]),
            "naive_half_step": (("start", "concept"), half[1]),
        },
        {"step": measured.step},
    )
