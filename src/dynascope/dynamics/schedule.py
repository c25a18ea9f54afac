"""Schedules: the steps (times) at which the compiled loop stops to record, to test its stopping condition, or to
pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dynascope import checks
from dynascope.probes.probe import Probe

Record = int | Sequence[int] | np.ndarray | None
"""Record every this many steps, or exactly these steps; None for about a thousand recordings."""
Times = Sequence[float] | np.ndarray | None

LAST_STEP = 2**31 - 1
"""Steps are counted in 32 bits."""
PAUSES = 128
"""A run in steps pauses at least this often between recordings, so that it can be monitored and interrupted."""


class Ticks(NamedTuple):
    """The part of a schedule that the compiled loop reads: an array over all times at which it stops."""

    times: np.ndarray
    """Increasing; they begin at 0 from a start, after `since` otherwise."""
    rows: dict[str, np.ndarray]
    """For each probe and time the row to write; one past the last row if it does not record."""
    last_rows: dict[str, np.ndarray]
    """The row to write if the run stops at this time: the next one, unless the probe's steps were listed."""
    tested: np.ndarray
    """For each time whether the stopping condition is tested there."""
    since: np.ndarray
    """The time at which the run begins."""


class Schedule(NamedTuple):
    """When a run stops to record, to test its stopping condition, or to be monitored."""

    ticks: Ticks
    recorded: dict[str, np.ndarray]
    """For each probe the times at which it records."""
    sizes: dict[str, int]
    """For each probe the number of its recordings."""
    record: Record
    """The run's cadence: None for a flow."""
    span: float
    """Steps, or units of time, from the beginning to the end."""

    @property
    def intervals(self) -> np.ndarray:
        """Steps from each stop to the next."""
        return np.diff(self.ticks.times, prepend=self.ticks.since)


class Request(NamedTuple):
    """The user's request: `steps` and `record`, or the `times` of a flow."""

    steps: int | None = None
    record: Record = None
    times: Times = None

    def more(self, axis: str, at: int | float, before: Record) -> Request:
        """The same for a run that is at `at` and was recorded as in `before`: `steps` are further ones."""
        if axis != "step" or self.steps is None:
            return self
        further = checks.whole("steps", self.steps, at_least=1, at_most=LAST_STEP - int(at))
        end, record = int(at) + further, self.record
        if record is None:
            record = before if before is None or np.ndim(before) == 0 else [end]
        elif np.ndim(record) and np.asarray(record).dtype.kind in "iu" and np.any(np.asarray(record) <= at):
            raise ValueError(f"record must hold steps after {at}; got {checks.shown(record)}")
        return self._replace(steps=end, record=record)


def make_schedule(
    request: Request, axis: str, probes: Mapping[str, Probe], *, stop: Probe | None, since: int | float | None
) -> Schedule:
    """Plan a run from its start, or from `since` on."""
    begin = 0 if since is None else since
    if axis == "time":
        if request.times is None or request.steps is not None or request.record is not None:
            raise ValueError("a flow is recorded at times=; it takes no steps= and no record=")
        if any(probe.every is not None for probe in (*probes.values(), *([] if stop is None else [stop]))):
            raise ValueError("a flow is recorded at times=; every= is for steps")
        common = _flow_times(request.times, since)
        recorded = dict.fromkeys(probes, common)
        pauses = [0.0] if since is None else []
        tested, number = common, jnp.result_type(float)
    else:
        if request.times is not None or request.steps is None:
            raise ValueError("give steps=, the number of steps to take; only a flow takes times=")
        steps = checks.whole("steps", request.steps, at_least=0, at_most=LAST_STEP)
        after = None if since is None else int(since)
        if request.record is None and steps:
            request = request._replace(record=_usual_cadence(steps))
        common = _record_steps("record", request.record, steps, after)
        recorded = {
            name: common if probe.every is None else _record_steps(f"every of '{name}'", probe.every, steps, after)
            for name, probe in probes.items()
        }
        sparse = steps - begin > 20 * PAUSES and len(common) < PAUSES
        pauses = np.linspace(begin, steps, PAUSES + 1).astype(np.int32)[1:] if sparse else [steps]
        pauses = [0, *pauses] if since is None else pauses
        every = None if stop is None else stop.every
        tested = common if every is None else _record_steps("every of stop", every, steps, after)
        number = np.int32
    tested = tested if stop is not None else np.zeros(0)
    stops = np.unique(np.concatenate([pauses, tested, *recorded.values()])).astype(number)
    rows, last_rows = {}, {}
    for name, at in recorded.items():
        rows[name] = np.full(len(stops), len(at), np.int32)
        rows[name][np.searchsorted(stops, at.astype(stops.dtype))] = np.arange(len(at), dtype=np.int32)
        if stop is not None:
            every = request.record if np.array_equal(at, common) else probes[name].every
            listed = every is not None and np.ndim(every) > 0  # exactly these: not the step at which it stops
            last_rows[name] = rows[name] if listed else np.searchsorted(at.astype(number), stops).astype(np.int32)
    is_tested = np.isin(stops, tested.astype(stops.dtype))
    ticks = Ticks(stops, rows, last_rows, is_tested, np.asarray(begin, number))
    sizes = {name: len(times) for name, times in recorded.items()}
    return Schedule(ticks, recorded, sizes, request.record, span=float(stops[-1] - ticks.since))


def linear_steps(steps: int, every: int = 1) -> np.ndarray:
    """Evenly spaced steps: 0, every, 2 every, ..., and the last one.

    Args:
        steps: The last step, 0 or more.
        every: The distance of two steps.

    Returns:
        The steps, increasing, as int32.
    """
    steps = checks.whole("steps", steps, at_least=0, at_most=LAST_STEP)
    every = checks.whole("every", every, at_least=1, at_most=LAST_STEP)
    return np.union1d(np.arange(0, steps + 1, every), [steps]).astype(np.int32)


def log_steps(steps: int, count: int = 200) -> np.ndarray:
    """Distinct steps evenly spaced in the logarithm, with 0 and the last one.

    Args:
        steps: The last step, 0 or more.
        count: About how many steps, 2 or more.

    Returns:
        The steps, increasing, as int32.
    """
    steps = checks.whole("steps", steps, at_least=0, at_most=LAST_STEP)
    count = checks.whole("count", count, at_least=2, at_most=LAST_STEP)
    if steps == 0:
        return np.zeros(1, np.int32)
    return np.union1d([0, steps], np.rint(np.geomspace(1, steps, min(count, steps + 1)))).astype(np.int32)


def _usual_cadence(steps: int) -> int:
    """A cadence that gives about a thousand recordings."""
    return max(1, steps // 1000)


def _record_steps(name: str, record: Record, steps: int, since: int | None) -> np.ndarray:
    """The steps after `since` (from a start: from step 0 on) that `record` specifies: a cadence, or a list of steps."""
    if isinstance(record, bool | str | bytes | Mapping):
        raise TypeError(f"{name} must be an integer, a list of steps, or None; got {checks.shown(record)}")
    first = 0 if since is None else since + 1
    if record is None or np.ndim(record) == 0:
        every = _usual_cadence(steps) if record is None else checks.whole(name, record, at_least=1, at_most=LAST_STEP)
        chosen = np.union1d(np.arange(-(-first // every) * every, steps + 1, every), [steps])
    else:
        asked = np.asarray(record)
        if asked.ndim != 1 or asked.dtype.kind not in "iu":
            raise TypeError(f"{name} must hold integers; got {checks.shown(record)}")
        if asked.size == 0 or asked.min() < 0 or (name == "record" and 0 < steps < asked.max()):
            raise ValueError(f"{name} must hold steps from 0 to {steps}; got {checks.shown(record)}")
        chosen = np.unique(asked[asked <= steps])
    return chosen[chosen >= first].astype(np.int32)


def _flow_times(times: Times, since: int | float | None) -> np.ndarray:
    """The increasing times of a flow, all after `since` if it is resumed."""
    asked = checks.array("times", times, ndim=1)
    distinct = np.unique(np.asarray(asked, float))
    if not np.all(np.isfinite(distinct)) or distinct[0] < 0:
        raise ValueError(f"times must be finite and not negative; got {checks.shown(times)}")
    clock = distinct.astype(jnp.result_type(float))
    if len(np.unique(clock)) < len(distinct):
        raise ValueError(f"times must be further apart than {clock.dtype} can resolve; got {checks.shown(times)}")
    if since is not None and clock[0] <= since:
        raise ValueError(
            f"times must lie after {float(since):g}, the time that the flow has reached; got {distinct[0]:g}"
        )
    return distinct
