"""Shared by the experiments on the symmetric model f(x) = U U^T x: training it, and scanning thousands of starts.

Steps are those of gradient descent on U with the given learning rate on the loss of eq. (4.1): one of them is
`2 * learning_rate` of the paper's clock. Starts come from NumPy seeds, so that a seed gives the same start on every
platform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.curves import stages
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import below
from dynascope.lab.experiment import Experiment, Values
from dynascope.probes import basic
from dynascope.probes.probe import probe
from dynascope.tasks.structured_identity import StructuredIdentity
from dynascope.theory.concept.jacobian_recursion import factor_gd, jacobian_of
from dynascope.theory.concept.linear_loss import out_of_distribution_loss, population_loss
from dynascope.theory.concept.one_layer import strengths
from dynascope.theory.concept.starts import aligned_factor, gaussian_factor

SCAN_CHUNK = 4096
"""Members of a scan whose curves are in memory at a time."""


class SymmetricLearner(ds.Member):
    """An ensemble member: gradient descent on U for the population loss, from the U(0) given as `start`."""

    def __call__(self, start: Array, mu: Array, sigma: Array, learning_rate: Array) -> ds.Descent:
        task = StructuredIdentity(mu, sigma, start.shape[0], norm="sum")
        probes = {
            "W": probe(lambda snapshot: snapshot.model.matrix(), dims=("row", "column")),
            "U": probe(lambda snapshot: snapshot.model.factor, dims=("row", "width")),
            "test_loss": probe(lambda snapshot: task.test_loss(snapshot.model)),
            "loss": basic.loss(),
        }
        return ds.Descent(ds.models.Symmetric(start), task, optax.sgd(learning_rate), probes=probes)


class StartScan(ds.Member):
    """The same descent with its gradient written out (`factor_gd`): several times faster for matrices this small."""

    def __call__(self, start: Array, mu: Array, sigma: Array, learning_rate: Array) -> ds.Map:
        task = StructuredIdentity(mu, sigma, start.shape[0], norm="sum")
        a, point = task.second_moment, task.test_point
        probes = {
            "test_loss": lambda U: out_of_distribution_loss(jacobian_of(U), point),
            "loss": lambda U: population_loss(jacobian_of(U), a),
            "majors": probe(lambda snapshot: jnp.sum(snapshot.model**2, axis=1), dims=("concept",)),
        }
        return ds.Map(lambda U: factor_gd(U, a, 2 * learning_rate), start, probes=probes)


class SymmetricExperiment(Experiment):
    """Fields that every experiment on the symmetric model has."""

    defaults = {"precision": "float64"}

    mu: Values = (1.0, 2.0)
    sigma: Values = (0.05, 0.05)
    scale: float = Field(0.1, gt=0)
    """Standard deviation τ of the entries of U(0)."""
    learning_rate: float = Field(0.01, gt=0)
    steps: PositiveInt = 3000
    tolerance: float = Field(0.01, gt=0, lt=1)
    """The loss has turned once it has come back by this share of its first value."""

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
        return ds.ensemble(SymmetricLearner(), {"start": starts}, record=record, **run).trace

    def scan(self, starts: np.ndarray, tolerances: Sequence[float] | None = None, **changes: Any) -> xr.Dataset:
        """Descend from thousands of starts and keep a few numbers of each: `descents` at each tolerance, the largest
        `rise` of the training loss (over its first value), the step `half_step` at which each major reaches 1/2 (nan:
        never), and the last `majors` and `test_loss`.

        The curves are recorded about 600 times: at every step at first, later whenever the step has grown by a percent.
        """
        run, tolerances = self._run(changes), tolerances or (self.tolerance,)
        record, parts = ds.log_steps(run["steps"], 1000), []
        for first in range(0, len(starts), SCAN_CHUNK):
            chunk = {"start": starts[first : first + SCAN_CHUNK]}
            trace = ds.ensemble(StartScan(), chunk, record=record, **run).trace
            majors = trace.majors.transpose("start", "concept", "step").values
            counts = np.stack([stages.descents(trace.test_loss.values, tolerance) for tolerance in tolerances])
            table = {
                "descents": (("turn_tolerance", "start"), counts),
                "rise": ("start", _largest_rise(trace.loss.values)),
                "half_step": (("start", "concept"), stages.first_crossing(majors, 0.5, record).time),
                "majors": (("start", "concept"), majors[..., -1]),
                "test_loss": ("start", trace.test_loss.values[:, -1]),
            }
            parts.append(xr.Dataset(table))
        return xr.concat(parts, "start").assign_coords(turn_tolerance=np.asarray(tolerances))

    def _run(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        set_up = self.model_copy(update=dict(changes))
        number = np.dtype(self.precision).type
        fixed = {name: number(getattr(set_up, name)) for name in ("mu", "sigma", "learning_rate")}
        return {"fixed": fixed, "steps": set_up.steps}


def judge_overlay(deviation: xr.DataArray) -> Claim:
    """The claim that the closed forms follow the drawn runs."""
    statement = "The closed forms, from the start alone, overlay every entry of the Jacobian (largest difference)"
    settled = "Settled after looking: the closed forms drop terms of the size of W(0), 0.05 to 0.5 in these starts"
    return below("overlay", statement, deviation, 0.25, source="Section 4.2", post_hoc=settled)


def _largest_rise(loss: np.ndarray) -> np.ndarray:
    """Over the first value; infinite if the run diverged."""
    with np.errstate(invalid="ignore", over="ignore"):
        rise = np.max(np.diff(loss, axis=-1), axis=-1) / loss[:, 0]
    return np.where(np.isfinite(rise), rise, np.inf)
