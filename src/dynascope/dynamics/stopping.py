"""Early stopping: a condition of the snapshot, tested when the run records or at its own cadence."""

from __future__ import annotations

from collections.abc import Callable

import jax

from dynascope import checks
from dynascope.probes.probe import Probe, Snapshot, probe

Stop = Callable[[Snapshot], jax.Array] | Probe | None
"""A condition of the snapshot, tested when the run records; as a `probe(condition, every=...)`, at its own cadence.

A run that stops between two recordings records its last state too, unless its steps were listed. Members of an ensemble
share their steps: there the recording before is the last one, and `member(...).model` has the last state."""


def as_condition(stop: Stop) -> Probe | None:
    """Make a stopping condition into a probe."""
    if stop is None or isinstance(stop, Probe):
        return stop
    return probe(checks.function("stop", stop, "stop(snapshot)"))


def condition_met(stop: Probe, snapshot: Snapshot) -> jax.Array:
    """Test the stopping condition: one boolean."""
    wanted = "stop must return one JAX boolean, such as snapshot.loss() < 1e-6"
    try:
        value = stop.measure(snapshot, None)[0]
    except jax.errors.ConcretizationTypeError:
        raise TypeError(f"{wanted}; it turns an array into a Python value") from None
    except (AttributeError, TypeError) as error:
        reason = str(error).partition("\n")[0][:80]
        raise TypeError(
            f"stop is called with a snapshot, whose model is snapshot.model; it failed ({reason})"
        ) from error
    if not isinstance(value, jax.Array) or value.shape != () or value.dtype != bool:
        raise TypeError(f"{wanted}; got {checks.shown(value)}")
    return value
