"""Readings of the runs on feature learning, the iterate with the best validation loss, and claims about it."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import xarray as xr

from dynascope.curves import correlation, paired_difference
from dynascope.dynamics import rates
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import About, below, every, share

STOP = 1e-3
"""The training loss at which the document stops."""


def best_iterate(trace: xr.Dataset) -> xr.Dataset:
    """Records at the step with the lowest validation loss, and `at`, the number of steps taken. Only steps up
    to the first with a training loss below 1e-3 count, and none within a catapult. All is NaN if the run diverged
    before that, if no step counts, or if fewer catapults were completed than requested."""
    stopped = (trace.train < STOP).astype(int)
    until_stop = stopped.cumsum("step") - stopped == 0
    finite = np.isfinite(trace.train) & np.isfinite(trace.validation)
    diverged = (until_stop & ~finite).any("step")
    allowed = until_stop & finite
    if "rate_phase" in trace:
        allowed = allowed & (trace.rate_phase != rates.RAISED)
    at = trace.validation.where(allowed, np.inf).argmin("step")
    names = ("test", "alignment", "alignment_corner", "train", "validation", "supercritical", "taken")
    best = trace[[name for name in names if name in trace]].isel(step=at)
    taken = best.taken if "taken" in best else trace.step[at]
    best = best.assign(at=taken.drop_vars("step", errors="ignore")).drop_vars("step", errors="ignore")
    known = allowed.any("step") & ~diverged
    if "rate_catapults" in trace:
        known = known & (trace.rate_catapults.isel(step=-1) == trace.catapults)
    best = best.where(known.drop_vars("step", errors="ignore"))
    labels = {name: trace[name] for name in ("isotropic_alignment", "reference_accuracy") if name in trace}
    return best.assign(labels).assign_attrs(trace.attrs)


def with_results(reduced: xr.Dataset) -> xr.Dataset:
    """The seeds in which every run has a result. If there is none, NaN for all: claims about them fail."""
    found = reduced.dropna("seed", subset=["test"])
    return found if found.sizes["seed"] else reduced.where(False)


def results(reduced: xr.Dataset, at_least: float = 0.8) -> Claim:
    """Most runs have a result; claims are about the seeds `with_results`."""
    statement = "Runs have a result: they do not diverge, and complete the catapults asked for"
    return share("results", statement, reduced.test.notnull(), at_least)


def outcomes(found: xr.Dataset) -> dict[str, Any]:
    """The numbers of the main claims: means over the seeds."""
    return {"mean alignment": found.alignment.mean("seed"), "mean test loss": found.test.mean("seed")}


def larger(id: str, statement: str, one: xr.DataArray, other: xr.DataArray, **about: Unpack[About]) -> Claim:
    """In every seed the first number is larger; the difference is shown with its interval."""
    about["shown"] = {"difference": paired_difference(one, other), **about.get("shown", {})}
    return every(id, statement, one.values > other.values, cases=2, **about)


def correlated(found: xr.Dataset) -> Claim:
    """The claim that the alignment of a run is correlated with its test loss."""
    related = correlation(found.test.values, found.alignment.values)
    statement = "Over all runs, test loss and alignment are negatively correlated: the upper end of the 95 % interval"
    return below("correlation", statement, related["interval"][1], 0.0, shown=related)
