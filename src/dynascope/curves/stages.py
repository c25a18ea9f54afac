"""The stages of a learning curve: descents and turning points, learning times, peaks, and a log of events.

Curves are arrays `(..., step)`: leading axes (seeds, settings) are batched over, and thousands of seeds by thousands of
steps take well under a second. Arrays or labeled arrays (their values) in, NumPy out.

Descents are counted with hysteresis: the loss has turned once it has moved back from its running extremum by more than
`tolerance` times its first value, and by more than noise of that size does in a record of that length; a descent is a
move from a maximum down, the start counting as one if the loss falls first.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from dynascope import checks
from dynascope.compilation import SELDOM_ON_CPU, jit_cached
from dynascope.curves._inputs import as_array, as_float, check_times, estimate_noise

Values = Float[np.ndarray, "..."]
Counts = Int[np.ndarray, "..."]


class TurningPoint(NamedTuple):
    """An extremum of a curve, confirmed by the hysteresis."""

    at: int
    """The index of the step."""
    value: float
    """The value of the curve there."""
    kind: Literal["minimum", "maximum"]
    """"minimum" or "maximum"."""


class Crossing(NamedTuple):
    """The first time at which a curve reaches a level."""

    time: Values
    """Interpolated linearly; nan if the curve never reaches the level."""
    uncertainty: Values
    """The width of the recorded interval in which it happens; 0 if the curve starts there."""


class Peak(NamedTuple):
    """The largest value of a curve."""

    value: Values
    """The value."""
    time: Values
    """Its time."""
    at: Counts
    """The index of its step."""


def descents(loss: ArrayLike, tolerance: float = 0.01, *, noise: float | None = None) -> Counts:
    """How many times the loss falls from a maximum by more than a share of its first value.

    Args:
        loss: The loss, `(..., step)`.
        tolerance: The smallest move that counts, relative to `loss[0]`.
        noise: The standard deviation of the noise on the values. Default: estimated from each curve with 32 steps or
            more, from the changes between steps.
    """
    count, _ = _hysteresis(loss, tolerance, noise, emit=False)
    return count


def turning_points(loss: ArrayLike, tolerance: float = 0.01, *, noise: float | None = None) -> list[TurningPoint]:
    """The interior extrema of one curve, in order; neither its start nor its end is among them.

    Args:
        loss: The loss, `(step,)`.
        tolerance: The smallest move that counts, relative to `loss[0]`.
        noise: The standard deviation of the noise on the values. Default: estimated from each curve with 32 steps or
            more, from the changes between steps.
    """
    values = np.asarray(checks.array("loss", loss, ndim=1))
    _, turns = _hysteresis(values, tolerance, noise, emit=True)
    points = []
    for k in np.flatnonzero(turns["kind"]):
        at = int(turns["at"][k])
        if at > 0:
            points.append(TurningPoint(at, float(values[at]), "maximum" if turns["kind"][k] > 0 else "minimum"))
    return points


def rises(loss: ArrayLike, tolerance: float = 0.01, *, noise: float | None = None) -> Values:
    """`(loss at maximum - loss at the minimum before it) / loss[0]` of each turn of one curve, in order.

    A rise that is incomplete at the end of the record counts up to there.

    Args:
        loss: The loss, `(step,)`.
        tolerance: The smallest move that counts, relative to `loss[0]`.
        noise: The standard deviation of the noise on the values. Default: estimated from each curve with 32 steps or
            more, from the changes between steps.
    """
    values = as_float("loss", loss, ndim=1)
    points = turning_points(values, tolerance, noise=noise)
    found = []
    for k, point in enumerate(points):
        if point.kind == "minimum":
            end = points[k + 1].at if k + 1 < len(points) else len(values) - 1
            found.append((np.max(values[point.at : end + 1]) - point.value) / values[0])
    return np.array(found)


def memorization_depth(loss: ArrayLike) -> Values:
    """The depth of transient memorization: the largest rise above an earlier value, relative to `loss[0]`.

    `max_t [loss(t) - min_{t' <= t} loss(t')] / loss[0]`; after a first fall it is the largest of `rises`.

    Args:
        loss: The loss, `(..., step)`.
    """
    values = as_array("loss", loss)
    return np.asarray(np.max(values - np.minimum.accumulate(values, axis=-1), axis=-1) / values[..., 0])


def memorization_peak(loss: ArrayLike) -> Counts:
    """The index at which the loss is highest above its earlier minimum. -1 if the loss never rises.

    Args:
        loss: The loss, `(..., step)`.
    """
    values = as_array("loss", loss)
    rise = values - np.minimum.accumulate(values, axis=-1)
    return np.where(np.max(rise, axis=-1) > 0, np.argmax(rise, axis=-1), -1)


def first_crossing(
    curve: ArrayLike, level: ArrayLike, times: ArrayLike | None = None, *, falling: bool = False
) -> Crossing:
    """The first time at which a curve is at or above a level, interpolated linearly.

    Args:
        curve: The values, `(..., step)`.
        level: A number, or one for each curve, `(...)`.
        times: The time of each step, `(step,)`. Default: its index.
        falling: Find the first time at which the curve is at or below the level instead.
    """
    values, clock = _with_times(curve, times)
    checks.one_of("falling", falling, (True, False))
    bound = np.asarray(checks.array("level", level, empty=True), dtype=float)[..., None]
    if (isinstance(level, float) and np.isnan(level)) or (bound.ndim > 1 and bound.shape[:-1] != values.shape[:-1]):
        raise ValueError(f"level must be a number, or one for each of the curves; got {checks.shown(level)}")
    excess = bound - values if falling else values - bound
    there = excess >= 0
    last = np.argmax(there, axis=-1)[..., None]
    before = np.maximum(last - 1, 0)
    high, low = np.take_along_axis(excess, last, -1)[..., 0], np.take_along_axis(excess, before, -1)[..., 0]
    start, end = clock[before[..., 0]], clock[last[..., 0]]
    share = np.where(high > low, high / np.where(high > low, high - low, 1), 0)
    share = np.where(np.isfinite(low), share, 0)
    never = ~there.any(axis=-1)
    width = end - start
    return Crossing(np.where(never, np.nan, end - share * width), np.where(never, np.nan, width))


def peak(curve: ArrayLike, times: ArrayLike | None = None) -> Peak:
    """The largest value of a curve, its time and its index.

    Args:
        curve: The values, `(..., step)`.
        times: The time of each step, `(step,)`. Default: its index.
    """
    values, clock = _with_times(curve, times)
    at = np.asarray(np.argmax(values, axis=-1))
    return Peak(np.asarray(np.take_along_axis(values, at[..., None], -1)[..., 0]), np.asarray(clock[at]), at)


def time_below_peak(curve: ArrayLike, share: float = 0.1, times: ArrayLike | None = None) -> Crossing:
    """The first time after its peak at which a curve is below a share of the peak.

    Args:
        curve: The values, `(..., step)`.
        share: The share of the peak.
        times: The time of each step, `(step,)`. Default: its index.
    """
    checks.real("share", share, at_least=0, at_most=1)
    values, clock = _with_times(curve, times)
    top = peak(values, clock)
    after = np.arange(values.shape[-1]) >= top.at[..., None]
    return first_crossing(
        np.where(after, values, top.value[..., None]), np.asarray(share * top.value), clock, falling=True
    )


class Event(NamedTuple):
    """An event of a run."""

    time: float
    """When it happens."""
    what: str
    """Its name, such as "major at half"."""
    where: tuple[int, ...] = ()
    """The indices of the entry, from 0; empty for the loss."""


def stage_log(
    W: ArrayLike,
    concepts: int,
    times: ArrayLike | None = None,
    loss: ArrayLike | None = None,
    *,
    phase: float = 0.1,
    tolerance: float = 0.01,
) -> list[Event]:
    """The events of one run, in order, from its Jacobian and its test loss.

    Minors `(i, j)`, `i < j`, and the group of concept p (the largest `|w|` of row or column p off the diagonal) have
    their peak and the first time after it below a tenth of it; a minor that is largest at the start or the end of the
    record has no peak.

    Args:
        W: The Jacobian, `(step, d, d)`.
        concepts: Number of concepts, at most d.
        times: The time of each step, `(step,)`. Default: its index.
        loss: The test loss, `(step,)`; its turning points are events too.
        phase: The value at which a major leaves the initial phase (Definition D.1: `P beta omega`).
        tolerance: The smallest move of the loss that counts, relative to `loss[0]`.
    """
    path = as_float("W", W, ndim=3)
    checks.whole("concepts", concepts, at_least=1, at_most=min(path.shape[1:]))
    checks.real("phase", phase)
    checks.real("tolerance", tolerance, at_least=0)
    if loss is not None and np.shape(loss) != path.shape[:1]:
        raise ValueError(f"loss must have {path.shape[0]} steps, as W; got {checks.shown(loss)}")
    clock = _with_times(path[:, 0, 0], times)[1]
    size = np.abs(path)
    off = ~np.eye(path.shape[-1], dtype=bool)
    events: list[Event] = []
    for p in range(concepts):
        events.append(Event(float(first_crossing(path[:, p, p], phase, clock).time), "major leaves phase", (p,)))
        events.append(Event(float(first_crossing(path[:, p, p], 0.5, clock).time), "major at half", (p,)))
        minors = {(p, j): size[:, p, j] for j in range(p + 1, path.shape[-1])}
        group = np.max(size[:, p, off[p]], axis=-1, initial=0.0)
        for where, curve, name in [*((ij, w, "minor") for ij, w in minors.items()), ((p,), group, "group")]:
            top = peak(curve, clock)
            if 0 < top.at < len(curve) - 1:
                events.append(Event(float(top.time), f"{name} peak", where))
                below = time_below_peak(curve, 0.1, clock).time
                events.append(Event(float(below), f"{name} below tenth", where))
    if loss is not None:
        events += [Event(float(clock[t.at]), f"loss {t.kind}") for t in turning_points(loss, tolerance)]
    return sorted((event for event in events if not np.isnan(event.time)), key=lambda event: event.time)


def _with_times(curve: ArrayLike, times: ArrayLike | None) -> tuple[Values, Float[np.ndarray, " step"]]:
    values = as_float("curve", curve)
    steps = values.shape[-1]
    return values, np.arange(steps, dtype=float) if times is None else check_times(times, steps)


def _hysteresis(
    loss: ArrayLike, tolerance: float, noise: float | None, emit: bool
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    checks.real("tolerance", tolerance, at_least=0)
    values = as_array("loss", loss)
    values = values if np.issubdtype(values.dtype, np.floating) else values.astype(float)
    spread = estimate_noise(values) if noise is None else checks.real("noise", noise, at_least=0)
    reach = 2 * np.sqrt(2 * np.log(values.shape[-1])) + 2  # beyond the range of as many normal variables
    band = np.fmax(tolerance * np.abs(values[..., 0]), reach * spread)
    with jax.enable_x64(values.dtype == np.float64):
        count, turns = jit_cached(_scan, SELDOM_ON_CPU)(jnp.asarray(values), jnp.asarray(band, values.dtype), emit)
        return np.asarray(count), {name: np.asarray(turn) for name, turn in turns.items()}


class _State(NamedTuple):
    direction: Array  # -1 falling, +1 rising, 0 not yet known
    highest: Array  # since the last minimum (or the start)
    lowest: Array  # since the last maximum (or the start)
    highest_at: Array
    lowest_at: Array
    descents: Array


def _scan(values: Array, band: Array, emit: bool) -> tuple[Array, dict[str, Array]]:
    curves = jnp.moveaxis(values, -1, 0)

    def advance(state: _State, now: tuple[Array, Array]) -> tuple[_State, dict[str, Array]]:
        step, value = now
        up, down = value > state.highest, value < state.lowest
        highest, lowest = jnp.where(up, value, state.highest), jnp.where(down, value, state.lowest)
        highest_at, lowest_at = jnp.where(up, step, state.highest_at), jnp.where(down, step, state.lowest_at)
        falls = (state.direction >= 0) & (value < highest - band)
        climbs = (state.direction <= 0) & (value > lowest + band) & ~falls
        turned = falls | climbs
        ended_at = jnp.where(falls, highest_at, lowest_at)
        state = _State(
            direction=jnp.where(falls, -1, jnp.where(climbs, 1, state.direction)),
            highest=jnp.where(climbs, value, highest),
            lowest=jnp.where(falls, value, lowest),
            highest_at=jnp.where(climbs, step, highest_at),
            lowest_at=jnp.where(falls, step, lowest_at),
            descents=state.descents + falls.astype(jnp.int32),
        )
        if not emit:
            return state, {}
        kind = jnp.where(falls, 1, jnp.where(climbs, -1, 0))
        return state, {"at": jnp.where(turned, ended_at, -1), "kind": kind}

    zero = jnp.zeros(curves.shape[1:], jnp.int32)
    start = _State(zero, curves[0], curves[0], zero, zero, zero)
    steps = jnp.arange(curves.shape[0], dtype=jnp.int32)
    final, turns = lax.scan(advance, start, (steps, curves))
    return final.descents, turns
