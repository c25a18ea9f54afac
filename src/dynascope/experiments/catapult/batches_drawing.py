"""Figures of batches and their critical rates."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.experiments.catapult.spikes_drawing import NORM, REST, TOP, stamp
from dynascope.figures.forms import FAINT, INK, THEORY, panels


def draw_batches(measured: xr.Dataset, high: float, low: float) -> Figure:
    """Critical rates of the batches beside the rates; the losses; the critical rate of the Hessian beside the
    kernel's."""
    step, one = measured.step.values, measured.isel(seed=0)
    figure, (rates, loss, both) = panels(3, size=(4.4, 3.6))
    above, below = one.isel(ratio=0), one.isel(ratio=1)
    over = (above.batch_rate < above.rate.isel(rate_step=0)).values
    rates.scatter(step[~over], above.batch_rate[~over], s=8, color=FAINT, label="batch, critical rate")
    rates.scatter(step[over], above.batch_rate[over], s=12, color=TOP, label="below the rate")
    for run, name, color in ((above, f"rate, {high:g}", INK), (below, f"rate, {low:g}", REST)):
        rates.axhline(float(run.rate.values[0]), color=color, linewidth=1.3, label=name)
        loss.semilogy(step, run.loss, color=color, linewidth=1.2, label=name)
    loss.scatter(step[1:][over[:-1]], above.loss.values[1:][over[:-1]], s=14, color=TOP, zorder=3, label="after such")
    at = measured.hessian_rate_step.values.astype(int)
    for k, color in ((0, NORM), (1, REST)):
        run = measured.isel(ratio=k)
        both.loglog(run.batch_rate.values[:, at].ravel(), run.hessian_rate.values.ravel(), "o", markersize=4,
                    color=color, alpha=0.6, label=f"at {(high, low)[k]:g}")  # fmt: skip
    ends = np.array(both.get_xlim())
    both.plot(ends, ends, **THEORY)
    both.set(xlabel="b / ‖K(batch)‖", ylabel="2 / λ of the batch's Hessian", title="Critical rates, two ways")
    for axis in (both.xaxis, both.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("{x:.2g}")
    both.tick_params(which="both", labelsize=8)
    rates.set(xlabel="step", ylabel="learning rate", title="Batches, one seed")
    rates.set_ylim(0, 1.35 * float(above.batch_rate.max()))
    loss.set(xlabel="step", ylabel="loss on all the data", title="Loss, one seed")
    rates.legend(loc="upper left", fontsize=7, ncols=2)
    loss.legend(loc="upper right", fontsize=7)
    both.legend(loc="upper left")
    stamp(figure, measured)
    return figure
