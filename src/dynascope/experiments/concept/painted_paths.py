"""Readings of paths of painted concepts: the step at which pictures are formed, the leading concept, the step at which
each is learned."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from dynascope.theory.concept.one_layer import strengths

SMOOTHING = 2.0
"""The width, in recordings, of the Gaussian that paths are smoothed with."""
LEARNED = 0.8
"""A concept is learned when this share of the pictures has it."""
HALF = 0.5
"""Half of the largest change of a share by prompting for a concept."""
GATE = 0.05
"""The training classes are learned when their mean squared error in concept space is below this."""


def targets(prompts: xr.DataArray, concepts: xr.DataArray) -> xr.DataArray:
    """The concept coordinates (prompt, concept) that each prompt specifies."""
    digits = [[int(digit) for digit in str(name)] for name in prompts.values]
    return xr.DataArray(np.asarray(digits, float), {"prompt": prompts, "concept": concepts}, ("prompt", "concept"))


def error(path: xr.DataArray) -> xr.DataArray:
    """The mean squared error in concept space of paths (..., prompt, concept)."""
    return ((path - targets(path.prompt, path.concept)) ** 2).mean("concept")


def training_error(path: xr.DataArray) -> xr.DataArray:
    """The mean error of the prompts that were trained on: those with at most one concept at 1."""
    trained = [name for name in path.prompt.values if str(name).count("1") <= 1]
    return error(path).sel(prompt=trained).mean("prompt")


def from_first(flags: xr.DataArray) -> xr.DataArray:
    """True from the first recording on at which the flag is true."""
    return flags.cumsum("step") > 0


def new_path(measured: xr.Dataset, name: str = "concepts") -> xr.DataArray:
    """The path of the class with every concept at 1, from the first recording at which half of its pictures show one
    object on one background; NaN before."""
    last = str(measured.prompt.values[-1])
    formed = from_first(measured.concepts_formed.sel(prompt=last) >= 0.5)
    return measured[name].sel(prompt=last, drop=True).where(formed)


def gains(measured: xr.Dataset) -> xr.DataArray:
    """The change of each concept's share in the new class by prompting for it, from the first formed pictures on: the
    share at the prompt with every concept minus that at the prompt without this one. A network that has not learned
    anything yet may favor one value of a concept; that is not a gain."""
    last, names = str(measured.prompt.values[-1]), list(measured.concept.values)
    path, parts = new_path(measured), []
    for i, name in enumerate(names):
        without = measured.concepts.sel(prompt=last[:i] + "0" + last[i + 1 :], drop=True)
        parts.append((path - without).sel(concept=name, drop=True))
    return xr.concat(parts, "concept").assign_coords(concept=names)


def lead(path: xr.DataArray) -> xr.DataArray:
    """The lead of the second concept over the first, as a mean over the recordings of a path."""
    return (path.isel(concept=1, drop=True) - path.isel(concept=0, drop=True)).mean("step")


def smoothed(path: xr.DataArray, width: float = SMOOTHING) -> xr.DataArray:
    """A path smoothed along its recordings; NaN has no weight."""
    n = path.sizes["step"]
    kernel = np.exp(-0.5 * ((np.arange(n)[:, None] - np.arange(n)[None, :]) / width) ** 2)
    weights = xr.DataArray(kernel, dims=("at", "step"))
    known = path.notnull()
    total = (weights * path.fillna(0.0)).sum("step") / (weights * known).sum("step").clip(1e-12)
    return total.rename(at="step").assign_coords(step=path.step).where(known)


def learning_steps(path: xr.DataArray, level: float = LEARNED) -> xr.DataArray:
    """The first step at which each concept of the smoothed path has reached the level; the last step if it never
    has."""
    reached = smoothed(path) >= level
    first = path.step[reached.argmax("step")].drop_vars("step").where(reached.any("step"))
    return first.fillna(float(path.step[-1]))


def rise(measured: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """The largest rise of the test class's error above its lowest value so far, once the training classes are learned:
    of the mean path over seeds, and the standard error of that rise over seeds."""
    last = str(measured.prompt.values[-1])
    single = error(measured.concepts).sel(prompt=last, drop=True)
    whole = measured.concepts.mean("seed")
    counted = from_first(training_error(whole) < GATE)
    mean = error(whole).sel(prompt=last, drop=True).where(counted)
    lowest = xr.apply_ufunc(np.fmin.accumulate, mean, kwargs={"axis": mean.get_axis_num("step")})
    rises = (mean - lowest).fillna(0.0)
    top = rises.argmax("step")
    bottom = mean.where(mean.step <= mean.step[top]).fillna(np.inf).argmin("step")
    moved = single.isel(step=top) - single.isel(step=bottom)
    return rises.max("step"), moved.std("seed", ddof=1) / np.sqrt(max(1, measured.sizes["seed"]))


def speed(measured: xr.Dataset) -> xr.DataArray:
    """The distance per step of the mean path of the test class between recordings, at the step in their middle."""
    path = new_path(measured).mean("seed")
    moved = np.sqrt((path.diff("step") ** 2).sum("concept", skipna=False)) / path.step.diff("step")
    return moved.assign_coords(step=(path.step.values[1:] + path.step.values[:-1]) / 2)


def slow_down(step: np.ndarray, speed: np.ndarray, resolution: float) -> tuple[float, float]:
    """The fit of a falling speed by an exponential and by a power of time: R² of its logarithm over the step and over
    the step's logarithm, from the largest speed down to the resolution; NaN with fewer than four speeds there."""
    fast = int(np.nanargmax(speed))
    lost = np.flatnonzero(~(speed[fast:] > resolution))
    kept = slice(fast, fast + lost[0] if lost.size else None)
    if len(speed[kept]) < 4:
        return np.nan, np.nan
    at, logs = step[kept], np.log(speed[kept])
    exponential, power = (float(np.corrcoef(x, logs)[0, 1] ** 2) for x in (at, np.log(at)))
    return exponential, power


def resolution(step: np.ndarray, pictures: int) -> float:
    """The speed of two shares due to chance alone, as the share among this many pictures varies between recordings."""
    return float(1 / np.sqrt(pictures) / np.median(np.diff(step)))


def predicted_lead(signal: xr.DataArray, spread: xr.DataArray) -> xr.Dataset:
    """The structured identity mapping of one layer at these signals (..., concept): strengths a, the `lead` of the
    second concept, and the `path` it takes.

    Its outputs are z_p = 1 - exp(-a_p t), so that z_2 = 1 - (1 - z_1)^(a_2 / a_1) for any clock. The lead is the area
    between this path and the diagonal, r / (1 + r) - 1/2 with r = a_2 / a_1.
    """
    signal = signal.transpose(..., "concept")
    a = signal.copy(data=strengths(signal.values, spread.transpose(..., "concept").values, origin=True))
    ratio = a.isel(concept=1, drop=True) / a.isel(concept=0, drop=True)
    first = xr.DataArray(np.linspace(0, 1, 51), dims="point")
    path = xr.concat([first.broadcast_like(ratio), 1 - (1 - first) ** ratio], "concept").assign_coords(
        concept=a.concept
    )
    return xr.Dataset({"strength": a, "lead": ratio / (1 + ratio) - 0.5, "path": path})


def flip(separation: np.ndarray, leads: np.ndarray) -> float:
    """The separation, between two of the grid, at which the lead falls through 0; NaN if it does not."""
    below = np.flatnonzero((leads[:-1] > 0) & (leads[1:] <= 0))
    if not len(below):
        return float("nan")
    i = int(below[0])
    return float(separation[i] + (separation[i + 1] - separation[i]) * leads[i] / (leads[i] - leads[i + 1]))


def rank_correlation(values: xr.DataArray) -> float:
    """Spearman's rank correlation of the separation with a value over all trainings; 0 if all are equal."""
    separation = values.separation.broadcast_like(values).transpose(*values.dims)
    ranks = [rankdata(each.values.ravel()) for each in (separation, values)]
    return float(np.corrcoef(*ranks)[0, 1]) if all(np.ptp(each) > 0 for each in ranks) else 0.0
