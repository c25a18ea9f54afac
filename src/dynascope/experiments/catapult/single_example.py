"""Figure 4.5: SGD on single examples spikes when it draws the one whose critical rate is below the rate in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves import spikes
from dynascope.experiments.seeds import member_seeds
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Experiment, Source
from dynascope.models.frozen import Frozen
from dynascope.probes.optimizer import batch_rows
from dynascope.tasks.sphere import doubled_example

SPIKE = 1.3
"""A step is a spike if it multiplies the loss on all the data by more than this."""
STAR = 0
"""Which example is doubled."""


class FixedReadout(eqx.Module):
    """f = m^(-1/2) sum_i v_i relu(u_i . x), of which only u is trained."""

    hidden: Float[Array, "m d"]
    readout: Frozen

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        v = self.readout.value()
        return v @ jax.nn.relu(self.hidden @ x) / jnp.sqrt(jnp.asarray(v.size, x.dtype))

    def kernels(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """K(x, x) = |x|^2 (1/m) sum v_i^2 1{u_i . x > 0}."""
        opened = (x @ self.hidden.T > 0).astype(x.dtype)
        return jnp.sum(x**2, axis=1) * (opened @ self.readout.value() ** 2) / self.hidden.shape[0]


class SingleDraws(eqx.Module):
    """An ensemble member: the sphere with one example doubled, and steps on one example at a time."""

    samples: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __call__(self, rate: Array, seed: Array) -> ds.Descent:
        for_data, for_hidden, for_readout, for_order = jax.random.split(jax.random.key(seed), 4)
        x, y = doubled_example(for_data, self.samples, self.dim, STAR)
        signs = 2 * jax.random.bernoulli(for_readout, shape=(self.width,)).astype(x.dtype) - 1
        model = FixedReadout(jax.random.normal(for_hidden, (self.width, self.dim)), Frozen(signs))

        others = jnp.arange(self.samples) != STAR
        probes = {
            "loss": ds.probes.loss(),
            "drawn": batch_rows(),
            "star_kernel": lambda model: model.kernels(x)[STAR],
            "other_kernel": lambda model: jnp.max(jnp.where(others, model.kernels(x), 0)),
        }
        task = ds.tasks.Supervised("mse")
        return ds.Descent(model, task, optax.sgd(rate), data=(x, y), batch=1, key=for_order, probes=probes)


class SingleExample(Experiment):
    """Does the loss of SGD spike exactly when it draws the example whose critical rate is exceeded?"""

    id = "catapult.single-example"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figure 4.5")
    cost = {"quick": 4, "full": 12}
    presets = {"quick": {"width": 500, "steps": 600, "seeds": 3}}
    control = {"rate": 0.4}
    notes = """100 points on the unit sphere in 100 dimensions with labels 1, one of them doubled, label and all; a
    two-layer ReLU network whose second layer is fixed (signs), steps on one example at a time, in an order drawn anew
    every epoch. The critical rate of an example is 1/K(x, x) for the loss (f - y)²: about 1/2 for the doubled one, 2
    for the others; the document's rate lies between, 1 is ours. A spike is a step that multiplies the loss on all the
    data by more than 1.3: smaller rises happen on draws of any example, so "exactly" needs a size. The control is a
    rate below all critical ones."""

    precision: Literal["float32", "float64"] = "float32"
    samples: PositiveInt = Field(100, ge=2)
    dim: PositiveInt = 100
    width: PositiveInt = 1000
    rate: float = Field(1.0, gt=0)
    low_rate: float = Field(0.4, gt=0)
    """A rate below all critical ones, beside it."""
    steps: PositiveInt = 1000
    seeds: PositiveInt = 5

    def measure(self, seed: int) -> xr.Dataset:
        seeds = member_seeds(seed, self.seeds)
        rates = np.array([self.rate, self.low_rate], np.dtype(self.precision))
        trace = ds.ensemble(
            SingleDraws(self.samples, self.dim, self.width), {"rate": rates, "seed": seeds}, steps=self.steps, record=1
        ).trace
        return trace.isel(place=0, drop=True).rename(rate="arm").assign_coords(arm=["between", "below all"])

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        runs = measured.transpose("arm", "seed", "step")
        loss, drawn = runs.loss.values, runs.drawn.values[..., :-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            growth = loss[..., 1:] / loss[..., :-1]
        spiked, on_star = spikes(loss, SPIKE)[..., 1:], drawn == STAR
        hits, seen = (spiked & on_star)[0], spiked[0]
        each = seen.any(axis=-1)
        holds = bool(each.all() and not np.any(seen & ~on_star[0]))
        yield claim(
            "spikes-on-the-doubled", f"At rate {self.rate:g} every step that multiplies the loss by more than "
            f"{SPIKE:g} draws the doubled example, and every run has such steps (the doubled example is 1 draw in "
            f"{self.samples})",
            source="Figure 4.5", measured=share_of(on_star[0][seen]) | {"spikes, by seed": seen.sum(axis=-1)},
            expected="share = 1, at least one spike in each run", holds=holds, seeds=self.seeds,
            diagnosis="" if holds else "Below all critical rates nothing is catapulted." if not each.any() else "",
        )  # fmt: skip
        star, other = 1 / runs.star_kernel.values[..., 0], 1 / runs.other_kernel.values[..., 0]
        between = (star < self.rate) & (self.rate < other)
        yield claim(
            "between", f"The rate {self.rate:g} lies between the critical rate of the doubled example and those of all "
            "others, 1/K(x, x), at the start",
            source="Section 4.3", measured={"doubled": star[0], "least of the others": other[0]},
            expected="1/2 and 2, by K = |x|²/2", holds=bool(between[0].all()), seeds=self.seeds,
            diagnosis="" if between[0].all() else "This rate is below both.",
        )  # fmt: skip
        yield claim(
            "none-below", f"At rate {self.low_rate:g}, below all critical rates, there is no spike",
            source="Figure 4.5", measured={"spikes": int(spiked[1].sum()), "largest growth": np.nanmax(growth[1])},
            expected=0, holds=not spiked[1].any(), seeds=self.seeds,
        )  # fmt: skip
        kernel = runs.star_kernel.values[0]
        above = self.rate * kernel[:, :-1] > 1
        tried = on_star[0] & above
        fell = self.rate * kernel[:, -1] < 1
        yield claim(
            "kernel-falls", "The kernel of the doubled example falls until the rate is below its critical one, and the "
            "spikes end", source="Figure 4.5", measured={"K at the start": kernel[:, 0], "at the end": kernel[:, -1],
            "spikes among draws above the critical rate": share_of(hits[tried]),
            "among draws below it": share_of(hits[on_star[0] & ~above])},
            expected=f"K < {1 / self.rate:g} at the end, from above", seeds=self.seeds,
            holds=bool(np.all(fell) and np.all(self.rate * kernel[:, 0] > 1)),
            diagnosis="" if fell.all() and above[:, 0].all() else "It did not start above, or was drawn too rarely.",
        )  # fmt: skip
        small = (growth > 1) & ~spiked
        yield claim(
            "small-rises-anywhere", "Rises that are not spikes happen on draws of other examples too, so that a spike "
            "is defined by its size", source="Figure 4.5", measured={"share of other draws that raise the loss":
            share_of(small[0][~on_star[0]])}, expected="> 0.05", holds=bool(small[0][~on_star[0]].mean() > 0.05),
            seeds=self.seeds,
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, (loss, kernel) = panels(2, size=(6.2, 3.6))
        run = measured.isel(seed=0).sel(arm="between")
        low = measured.isel(seed=0).sel(arm="below all")
        loss.semilogy(run.step, run.loss, color=INK, linewidth=1, label=f"η = {self.rate:g}")
        loss.semilogy(low.step, low.loss, color=FAINT, linewidth=1, label=f"η = {self.low_rate:g}")
        after = 1 + np.flatnonzero(run.drawn.values[:-1] == STAR)
        loss.plot(after, run.loss.values[after], "o", color=PALETTE[0], markersize=4, label="after a draw of x*")
        loss.set(xlabel="step", ylabel="loss on all the data", title="Spikes, and the draws of x*")
        loss.legend(loc="lower left")
        for seed in range(self.seeds):
            one = measured.isel(seed=seed).sel(arm="between")
            kernel.plot(one.step, one.star_kernel, color=PALETTE[0], linewidth=1.1, label="x*" if not seed else None)
            kernel.plot(one.step, one.other_kernel, color=PALETTE[1], linewidth=1.1,
                        label="largest of the others" if not seed else None)  # fmt: skip
        kernel.axhline(1 / self.rate, **THEORY, label="1/η")
        kernel.set(xlabel="step", ylabel="K(x, x)", ylim=(0, None), title="The kernel falls below 1/η, all seeds")
        kernel.legend(loc="upper right")
        return {"single-example": figure}
