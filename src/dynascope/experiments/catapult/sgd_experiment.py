"""What the experiments on catapults in SGD share: batches with their own critical rates, and how spikes are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from pydantic import PositiveInt

import dynascope as ds
from dynascope.dynamics import rates
from dynascope.experiments.catapult.deep_experiment import DeepExperiment, Network, mean_squares
from dynascope.probes.probe import Probe, Snapshot

WINDOW = 5
"""Steps before a spike in which it has risen, and after it in which it has passed."""
SPIKE = 2.0
"""A spike is a highest loss among its neighbors that is so many times the lowest one shortly before."""
TRAINED = 1e-3
"""The loss at which the document's runs end; what comes after is not looked at."""


class StochasticLearner(eqx.Module):
    """An ensemble member: SGD at `ratio` times the critical rate of the whole set at the start, or, with a period, at
    a rate that cycles between the two of a pair of ratios."""

    network: Network
    batch: int = eqx.field(static=True)
    splits: tuple[int, ...] = eqx.field(static=True)
    period: int | None = eqx.field(static=True, default=None)

    def __call__(self, seed: Array, ratio: Any, x: Array, y: Array) -> ds.Descent:
        for_net, for_order = jax.random.split(jax.random.key(seed))
        model = self.network(for_net, x, y)
        critical = ds.geometry.critical_rate(model, x)
        if self.period is None:
            schedule = constant(ratio * critical)
        else:
            schedule = rates.cyclic(ratio[0] * critical, ratio[1] * critical, self.period)
        probes = {
            "loss": ds.probes.loss(),
            "kernel": ds.probes.kernel_norm(x, y, self.splits),
            "rate": ds.probes.learning_rate(),
        }
        return stochastic(model, schedule, x, y, self.batch, for_order, probes)


def constant(rate: Array) -> rates.Schedule:
    return lambda _: rate


def stochastic(
    model: Any, schedule: rates.Schedule, x: Array, y: Array, batch: int, key: Array, probes: Mapping[str, Probe]
) -> ds.Descent:
    """SGD on the mean squared error, batches drawn anew every epoch."""
    return ds.Descent(model, mean_squares, rates.scheduled(schedule), data=(x, y), batch=batch, key=key, probes=probes)


def batch_loss() -> Probe:
    """The loss on the batch of the step to come; entry `after`: on the batch of the last step, now that it is taken."""

    def measure(snapshot: Snapshot, last: Any) -> tuple[Any, Any]:
        coming = snapshot.batch().data
        value = {"value": mean_squares(snapshot.model, coming), "after": mean_squares(snapshot.model, last)}
        return value, coming

    return Probe(measure, remember=lambda moment: snapshot.batch().data)


class Spike(NamedTuple):
    """One spike: the steps of its trough and peak, its height, its part in the top, and what the kernel's norm does."""

    trough: int
    peak: int
    height: float
    """The peak over the trough."""
    share: float
    """The part of the rise that lies in the top eigenvectors."""
    norm_ratio: float
    """The norm of the kernel shortly after over that at the trough."""


def spikes_of(run: xr.Dataset, top: int, higher: float = SPIKE) -> list[Spike]:
    """The spikes of one seed, until it is trained."""
    loss, inside, norm = run.loss.values, run.kernel_top.sel(split=top).values, run.kernel.values
    done = np.flatnonzero(~(loss > TRAINED))
    end = int(done[0]) if done.size else loss.size
    found = []
    for peak in range(1, end):
        first = max(0, peak - WINDOW)
        around = loss[first : peak + WINDOW + 1]
        trough = first + int(np.argmin(loss[first : peak + 1]))
        if loss[peak] < around.max() or loss[peak] <= higher * loss[trough]:
            continue
        share = (inside[peak] - inside[trough]) / (loss[peak] - loss[trough])
        after = norm[min(peak + WINDOW, loss.size - 1)]
        found.append(Spike(trough, peak, float(loss[peak] / loss[trough]), float(share), float(after / norm[trough])))
    return found


class StochasticExperiment(DeepExperiment):
    """Fields of the experiments on SGD."""

    batch: PositiveInt = 32


def batch_rates(model: Any, x: Array, batch: int) -> Array:
    """The critical rates of the batches that the data make in the order in which they lie."""
    count = x.shape[0] // batch
    blocks = x[: count * batch].reshape(count, batch, *x.shape[1:])
    return jax.lax.map(lambda block: ds.geometry.critical_rate(model, block), jnp.asarray(blocks))
