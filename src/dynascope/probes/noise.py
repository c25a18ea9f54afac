"""The noise of minibatch gradients inside the loop: its scale, and the curvature along batch gradients."""

from __future__ import annotations

import jax

from dynascope import checks
from dynascope.geometry.noise import BatchLoss, batch_sharpness as measure_sharpness, gradient_noise as measure
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Probe, Snapshot, Value, probe


def gradient_noise(*, rows: int = 1, every: Every = None) -> Probe:
    """The gradient noise scale tr Σ / |G|² of the data: the batch size at which noise and gradient are equally large.

    The loss must be a mean over the rows of the data. A recording takes two gradients of every example.

    Args:
        rows: Rows in a group, see `geometry.gradient_noise`.
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with scalar values; further entries: `error`, its standard error; `variance` (tr Σ) and `squared_norm`
        (|G|²).
    """
    checks.whole("rows", rows, at_least=1)

    def value(snapshot: Snapshot) -> Value:
        found = measure(_loss(snapshot, "gradient_noise"), snapshot.model, snapshot.data, rows=rows)
        return {
            "value": found.scale,
            "error": found.error,
            "variance": found.variance,
            "squared_norm": found.squared_norm,
        }

    return describe_probe(probe(value, every=every), "gradient_noise")


def batch_sharpness(batch: int, *, draws: int = 16, seed: int = 0, every: Every = None) -> Probe:
    """The curvature of a batch's loss along its own gradient: E[g·Hg] / E[|g|²] over random batches.

    Args:
        batch: Rows in a batch, drawn without replacement.
        draws: How many batches a recording draws.
        seed: Seed of the draws.
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with scalar values; further entry: `error`, its standard error.
    """
    checks.whole("batch", batch, at_least=1)
    checks.whole("draws", draws, at_least=2)
    checks.whole("seed", seed, at_least=0, at_most=2**32 - 1)

    def value(snapshot: Snapshot) -> Value:
        key = jax.random.fold_in(jax.random.key(seed), snapshot.step)
        loss = _loss(snapshot, "batch_sharpness")
        found = measure_sharpness(loss, snapshot.model, snapshot.data, batch=batch, key=key, draws=draws)
        return {"value": found.value, "error": found.error}

    return describe_probe(probe(value, every=every), "batch_sharpness")


def _loss(snapshot: Snapshot, name: str) -> BatchLoss:
    if snapshot.data is None or snapshot.loss_on is None:
        raise ValueError(f"probes.{name} needs a loss on data: give data=, arrays with one row for each example")
    return snapshot.loss_on
