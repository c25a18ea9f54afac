"""Findings in a trace, as sentences with numbers: the edge of stability, spikes, stages, ranks, the tangent kernel.

Each reader finds its variables by the attribute `long_name`, or by their names if there is none. It reads single
trainings; ensembles have no findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import xarray as xr

from dynascope import curves
from dynascope.lab.formatting import count, number

Kind = Literal["diverged", "edge", "spikes", "stages", "rank", "kernel"]
SPIKE, BEFORE = 2.0, 5
"""A spike is at least twice the lowest of the five recordings before it, and the highest within five after it."""
FLAT, SHORTEST, SMALLEST = 0.1, 0.1, 0.1
"""A plateau has at most a tenth of the mean slope and lasts at least a tenth of the record; a stage falls by at least a
tenth of the range."""
GAIN = 1.0
"""The stable rank that a weight matrix must gain or lose."""
MOST_WEIGHTS = 6
"""The most weight matrices that are named."""
STILL, LAST = 0.05, 0.2
"""The kernel is still if its distance stays within this share of the last one, over the last fifth of the record."""
NOTHING = "The readers found nothing to report."
FEWEST = 8
"""The fewest recordings in which stages, spikes and a still kernel are searched."""


class Finding(NamedTuple):
    """A finding of a reader in a trace."""

    kind: Kind
    """The reader: "diverged", "edge", "spikes", "stages", "rank" or "kernel"."""
    variable: str
    """The variable of the trace that shows it."""
    text: str
    """The sentence, with its numbers."""
    numbers: Mapping[str, float]
    """The same numbers by name."""


def findings(trace: xr.Dataset) -> list[Finding]:
    """Read a trace: find when the training reaches the edge of stability, spikes, moves in stages, and gains rank.

    Args:
        trace: A trace of one training. For the edge of stability it has the learning rate, as an attribute or as a
            variable `learning_rate` along `step`.

    Returns:
        The findings, in the order of the readers; none for an ensemble.
    """
    if not isinstance(trace, xr.Dataset):
        raise TypeError(f"trace must be an xarray.Dataset, such as a trajectory's trace; got {type(trace).__name__}")
    if "diverged_at" in trace and trace.diverged_at.ndim:
        return []
    found = list(_diverged(trace))
    for names, read in READERS.items():
        for name, variable in trace.data_vars.items():
            if variable.dims and _long_name(variable) in names:
                found += read(trace, str(name))
    return found


def sentences(trace: xr.Dataset | xr.DataTree) -> list[str]:
    """The sentences of the findings, or one that says that there are none.

    Args:
        trace: A trace; see `findings`.
    """
    found = findings(trace) if isinstance(trace, xr.Dataset) else []
    return [one.text for one in found] or [NOTHING]


def _diverged(trace: xr.Dataset) -> Iterator[Finding]:
    step = int(trace.diverged_at) if "diverged_at" in trace else -1
    if step >= 0:
        yield Finding(
            "diverged", "diverged_at", f"A parameter is not finite from step {number(step)} on.", {"at": step}
        )


def _edge(trace: xr.Dataset, name: str) -> Iterator[Finding]:
    """The step at which the sharpness reaches 2/η, and its distance from 2/η afterwards."""
    steps, sharpness = _curve(trace, name)
    rate = _learning_rate(trace, steps)
    if rate is None or not len(steps):
        return
    error = _curve(trace, f"{name}_error")[1] if f"{name}_error" in trace else np.zeros_like(sharpness)
    error = np.where(np.isfinite(error), error, 0) if len(error) == len(sharpness) else np.zeros_like(sharpness)
    edge = 2 / rate
    level = f"2/η = {number(float(edge[0]))}" if np.ptp(edge) == 0 else "2/η"
    touching = np.flatnonzero(sharpness + error >= edge)
    called = _called(trace, name)
    if not len(touching):
        at = int(np.argmax(sharpness / edge))
        top, share = float(sharpness[at]), float(sharpness[at] / edge[at])
        text = f"The {called} does not reach {level}: it is {_with_error(top, error[at])} at most, "
        text += f"{100 * share:.0f} % of it, "
        yield Finding("edge", name, f"{text}at step {number(steps[at])}.", {"share": share, "at": steps[at]})
        return
    first = int(touching[0])
    after = sharpness[first:] / edge[first:]
    within = int(np.sum(np.abs(sharpness[first:] - edge[first:]) <= error[first:]))
    middle, low, high = float(np.median(after)), float(after.min()), float(after.max())
    if first:
        begins, since = f"reaches {level} between steps {number(steps[first - 1])} and {number(steps[first])}", "then"
    else:
        begins, since = f"is at {level} or above from the first recording, step {number(steps[0])}", "there"
    text = f"The {called} {begins}"
    if len(after) > 1:
        text += (
            f". From {since} on it is {number(middle)} times 2/η (median; {number(low)} to {number(high)}), and equal "
        )
        text += f"to it within its error in {within} of {count(len(after), 'recording')}"
    numbers = {"reached": steps[first], "before": steps[max(first - 1, 0)], "median": middle, "low": low, "high": high}
    yield Finding("edge", name, f"{text}.", {**numbers, "within": within, "recordings": len(after)})


def _loss(trace: xr.Dataset, name: str) -> Iterator[Finding]:
    steps, loss = _curve(trace, name)
    if len(steps) >= FEWEST and loss.min() >= 0:
        yield from _spikes(name, _called(trace, name), steps, loss)
        yield from _stages(name, _called(trace, name), steps, loss)


def _spikes(name: str, called: str, steps: np.ndarray, loss: np.ndarray) -> Iterator[Finding]:
    """The number of spikes of the loss, and the largest one."""
    peaks = _peaks(loss)
    if not len(peaks):
        return
    lows = curves.troughs(loss, BEFORE)[peaks]
    with np.errstate(divide="ignore"):
        factors = loss[peaks] / loss[lows]
    which = int(np.argmax(factors))
    rise = curves.Rise(np.asarray(lows[which]), np.asarray(peaks[which]))
    low, high, factor = float(loss[lows[which]]), float(loss[peaks[which]]), float(factors[which])
    back = int(rise.recovery(loss))
    recovers = loss[back] <= low
    several = f"has {count(len(peaks), 'spike')}, the largest" if len(peaks) > 1 else "spikes"
    by = f" by a factor of {number(factor)}" if low > 0 else ""
    at = float(steps[peaks[which]])
    text = f"The {called} {several}{by} at step {number(at)}, from {number(low)} to {number(high)}; "
    text += f"it is back at step {number(steps[back])}." if recovers else "it does not come back."
    numbers = {"spikes": len(peaks), "at": at, "factor": factor}
    yield Finding("spikes", name, text, {**numbers, "back": steps[back] if recovers else np.nan})


def _stages(name: str, called: str, steps: np.ndarray, loss: np.ndarray) -> Iterator[Finding]:
    """The falls between plateaus."""
    span = steps[-1] - steps[0]
    jumps = curves.jumps(loss, steps, flat=FLAT / span, shortest=SHORTEST * span, smallest=SMALLEST)
    jumps = [jump for jump in jumps if jump.after < jump.before]
    if jumps:
        falls = [
            f"from {number(jump.before)} to {number(jump.after)} at step {number(round(jump.half))} "
            f"± {number(round(jump.uncertainty))}"
            for jump in jumps
        ]
        text = f"The {called} falls in {count(len(jumps), 'stage')} between plateaus: {', '.join(falls)}."
        numbers = {f"at {k}": jump.half for k, jump in enumerate(jumps, 1)}
        yield Finding("stages", name, text, {"stages": len(jumps), **numbers})


def _peaks(loss: np.ndarray) -> np.ndarray:
    """The recordings with the peak of a spike; several peaks without a fall between them are one spike."""
    peaks: list[int] = []
    for peak in np.flatnonzero(curves.spikes(loss, SPIKE, before=BEFORE, after=BEFORE)):
        if not peaks or loss[peaks[-1] : peak].min() * SPIKE < loss[peak]:
            peaks.append(int(peak))
    return np.array(peaks, int)


def _ranks(trace: xr.Dataset, name: str) -> Iterator[Finding]:
    """The weight matrices whose stable rank changes most, and the steps at which it does."""
    if "weight" not in trace[name].dims:
        return
    moved = []
    for weight in trace[name].weight.values:
        steps, rank = _curve(trace.sel(weight=weight), name)
        if len(rank) > 1 and abs(rank[-1] - rank[0]) >= GAIN:
            moved.append((str(weight), steps, rank))
    moved.sort(key=lambda one: -abs(one[2][-1] - one[2][0]))
    for weight, steps, rank in moved[:MOST_WEIGHTS]:
        change = rank[-1] - rank[0]
        when = [_first_crossing(steps, (rank - rank[0]) / change, share) for share in (0.1, 0.5, 0.9)]
        verb, what = ("gains", "gain") if change > 0 else ("loses", "loss")
        of = "the stable rank of its change" if _long_name(trace[name]).endswith("of the change") else "its stable rank"
        text = f"{weight} {verb} rank: {of} goes from {number(rank[0])} to {number(rank[-1])}, half of the "
        text += f"{what} by step {number(round(when[1]))} (10 % by {number(round(when[0]))}, 90 % by "
        numbers = {"from": rank[0], "to": rank[-1], "half": when[1], "tenth": when[0], "nine tenths": when[2]}
        yield Finding("rank", name, f"{text}{number(round(when[2]))}).", numbers)
    if len(moved) > MOST_WEIGHTS:
        text = f"The stable rank of {len(moved) - MOST_WEIGHTS} more weight matrices changes by {number(GAIN)} or more."
        yield Finding("rank", name, text, {"more": len(moved) - MOST_WEIGHTS})


def _kernel(trace: xr.Dataset, name: str) -> Iterator[Finding]:
    """The step at which the tangent kernel stops moving away from the first one."""
    steps, distance = _curve(trace, name)
    if len(steps) < FEWEST or distance[-1] <= 0:
        return
    moving = np.abs(distance - distance[-1]) > STILL * distance[-1]
    stop = int(np.flatnonzero(moving)[-1]) + 1 if moving.any() else 0
    last = steps[-1] - LAST * (steps[-1] - steps[0])
    at, end = steps[stop], float(distance[-1])
    head = "The tangent kernel"
    if at <= last:
        text = (
            f"{head} stops moving away from the first one at step {number(at)}: from there on its distance is within "
        )
        text += f"{100 * STILL:.0f} % of {number(end)}."
        yield Finding("kernel", name, text, {"at": at, "distance": end})
    else:
        before = float(np.interp(last, steps, distance))
        text = f"{head} still moves at the end: its distance from the first one goes from {number(before)} to "
        text += f"{number(end)} over the last fifth of the record."
        yield Finding("kernel", name, text, {"before": before, "distance": end})


def _curve(trace: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The finite values of a variable and their steps; the largest entry if it has several."""
    variable = trace[name]
    along = next(
        (str(dim) for dim in variable.dims if dim in ("step", "time") or str(dim).endswith(("_step", "_time"))), None
    )
    if along is None:
        return np.zeros(0), np.zeros(0)
    others = [dim for dim in variable.dims if dim != along]
    values = np.asarray(variable.isel(dict.fromkeys(others, 0)).values, float)
    seen = np.isfinite(values)
    return np.asarray(variable[along].values, float)[seen], values[seen]


def _learning_rate(trace: xr.Dataset, steps: np.ndarray) -> np.ndarray | None:
    """The learning rate at each step: the variable, or the attribute; None if it is not known."""
    if "learning_rate" in trace:
        known, rates = _curve(trace, "learning_rate")
        if len(rates) and np.all(rates > 0):
            return rates[np.clip(np.searchsorted(known, steps, side="right") - 1, 0, None)]
    rate = trace.attrs.get("learning_rate")
    return np.full(len(steps), float(rate)) if isinstance(rate, int | float) and rate > 0 else None


def _first_crossing(steps: np.ndarray, share: np.ndarray, level: float) -> float:
    """The first step at which a curve from 0 to 1 reaches a level, between recordings by a straight line."""
    for (left, low), (right, high) in pairwise(zip(steps, share, strict=True)):
        if high >= level:
            return float(left + (right - left) * (level - low) / (high - low))
    return float(steps[-1])


def _with_error(value: float, error: float) -> str:
    return number(value) + (f" ± {error:.1g}" if error > 0 else "")


def _long_name(variable: xr.DataArray) -> str:
    return str(variable.attrs.get("long_name", variable.name)).replace("_", " ")


def _called(trace: xr.Dataset, name: str) -> str:
    """The variable in words, with the name that the user gave it if that is another."""
    long, own = _long_name(trace[name]), name.replace("_", " ")
    return long if long == own else f"{long} ({name})"


READERS: Mapping[tuple[str, ...], Callable[[xr.Dataset, str], Iterator[Finding]]] = {
    ("sharpness",): _edge,
    ("loss",): _loss,
    ("stable rank", "stable rank of the change", "weight ranks"): _ranks,
    ("distance of the tangent kernel", "kernel distance"): _kernel,
}
"""The readers by the long names of the variables that they read, or names without a long one."""
