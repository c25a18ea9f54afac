"""Figure 4.5: SGD on single examples spikes when it draws the one whose critical rate is below the rate in use."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.criteria import above, agrees, below, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.models.frozen import Frozen
from dynascope.probes.basic import batch_rows
from dynascope.tasks.sphere import doubled_example

SPIKE = 1.3
"""A step is a spike if it multiplies the loss on all the data by more than this."""
STAR = 0
"""The index of the doubled example."""


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


class SingleDraws(ds.Member):
    """An ensemble member: the sphere with one example doubled, and steps on one example at a time."""

    samples: int
    dim: int
    width: int

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
    source = Source(OVER_PARAMETERIZED, "Figure 4.5")
    cost = {"quick": 4, "full": 12}
    known_failures = {
        "exact-match": """In a part of the runs, a fifth in quick and three of five at full size, a step above the
        critical rate of its example lowers the loss, or raises it by less than some other step does."""
    }
    presets = {"quick": {"width": 500, "seeds": 30}}
    control = {"rate": 0.4}
    notes = """100 points on the unit sphere in 100 dimensions with labels 1, one of them doubled, label and all; a
    two-layer ReLU network whose second layer is fixed (signs), steps on one example at a time, in an order drawn anew
    every epoch. The critical rate of an example is 1/K(x, x) for the loss (f - y)²: about 1/2 for the doubled one, 2
    for the others; the document's rate lies between, 1 is ours. Small rises happen on draws of any example, so
    "exactly" needs a size: a spike is a step that multiplies the loss on all the data by more than 1.3. The control is
    a rate below all critical ones."""

    samples: PositiveInt = Field(100, ge=2)
    dim: PositiveInt = 100
    width: PositiveInt = 1000
    rate: float = Field(1.0, gt=0)
    low_rate: float = Field(0.4, gt=0)
    """A rate below all critical ones, beside it."""
    steps: PositiveInt = 1000
    seeds: PositiveInt = 5

    def measure(self, seed: int) -> xr.Dataset:
        rates = np.array([self.rate, self.low_rate], np.dtype(self.precision))
        member, axes = SingleDraws(self.samples, self.dim, self.width), {"rate": rates}
        trace = ds.ensemble(member, axes | {"seed": member_seeds(seed, self.seeds)}, steps=self.steps, record=1).trace
        return trace.isel(place=0, drop=True).rename(rate="arm").assign_coords(arm=["between", "below all"])

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        """`star` and `other`: the largest factor by which a draw of the doubled example, or of another, multiplies the
        loss; `other_rises`: the share of other draws that raise it; `least_above` and `most_below`: the least factor of
        a step at a rate above the critical one of its example, and the largest of any other. Kernels at the start and
        at the end."""
        before, after = (measured.loss.isel(step=part).drop_vars("step") for part in (slice(-1), slice(1, None)))
        growth, on_star = after / before, measured.drawn.isel(step=slice(-1)).drop_vars("step") == STAR
        kernel = xr.where(on_star, *(measured[f"{name}_kernel"].isel(step=slice(-1)) for name in ("star", "other")))
        rate = xr.DataArray([self.rate, self.low_rate], dims="arm")
        occasion = kernel.drop_vars("step") * rate > 1
        ends = measured[["star_kernel", "other_kernel"]].isel(step=[0, -1]).rename(step="end")
        return ends.assign_coords(end=["first", "last"]).assign(
            star=growth.where(on_star).max("step"),
            other=growth.where(~on_star).max("step"),
            other_rises=((growth > 1) & ~on_star).sum("step") / (~on_star).sum("step"),
            least_above=growth.where(occasion).min("step"),
            most_below=growth.where(~occasion).max("step"),
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        run, low = reduced.sel(arm="between"), reduced.sel(arm="below all")
        statement = f"At rate {self.rate:g} every run has steps that multiply the loss by more than {SPIKE:g}, and all "
        statement += f"of them draw the doubled example, 1 draw in {self.samples}"
        shown = {"largest factor, doubled": run.star, "others": run.other}
        yield every("spikes-on-the-doubled", statement, (run.star > SPIKE) & (run.other <= SPIKE), shown=shown)
        statement = "Every step at a rate above the critical one of its example raises the loss, and by more than any "
        statement += "other step does"
        exact = run.least_above > np.maximum(run.most_below, 1)
        shown = {"least factor above": run.least_above, "largest of the others": run.most_below}
        printed = "Exact match between the occasion when η > η_crit(X_batch) and loss spike for SGD"
        yield every("exact-match", statement, exact, printed=printed, shown=shown)
        first, last = (1 / run[["star_kernel", "other_kernel"]].sel(end=end) for end in ("first", "last"))
        statement = f"The rate {self.rate:g} lies between the critical rates 1/K(x, x) of the doubled example and of "
        statement += "all others, at the start"
        flags = (first.star_kernel < self.rate) & (self.rate < first.other_kernel)
        shown = {"doubled": first.star_kernel, "least of the others": first.other_kernel}
        yield every("between", statement, flags, source="Section 4.3", shown=shown)
        statement = "The kernel of the doubled example is |x|²/2 = 2 at the start, to four standard errors (mean)"
        tolerance = 4 / np.sqrt(self.width * self.seeds)
        kernel = run.star_kernel.sel(end="first").mean()
        yield agrees("first-kernel", statement, kernel, 2.0, relative=tolerance, source="Section 4.3")
        statement = f"At rate {self.low_rate:g}, below all critical rates, there is no spike: the largest factor"
        yield below("none-below", statement, np.maximum(low.star, low.other), SPIKE)
        statement = "The kernel of the doubled example falls until the rate is below its critical one"
        shown = {"K at the start": 1 / first.star_kernel, "at the end": 1 / last.star_kernel}
        flags = (first.star_kernel < self.rate) & (self.rate < last.star_kernel)
        post_hoc = "The steps of quick: in 600 of them some runs draw it too rarely."
        yield every("kernel-falls", statement, flags, shown=shown, post_hoc=post_hoc)
        statement = "Small rises happen on draws of other examples too, so that a spike is defined by its size: the "
        statement += "share of other draws that raise the loss"
        yield above("small-rises-anywhere", statement, run.other_rises.mean(), 0.05)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, (loss, kernel) = panels(2, size=(6.2, 3.6))
        run, low = (measured.isel(seed=0).sel(arm=arm) for arm in ("between", "below all"))
        loss.semilogy(run.step, run.loss, color=INK, linewidth=1, label=f"η = {self.rate:g}")
        loss.semilogy(low.step, low.loss, color=FAINT, linewidth=1, label=f"η = {self.low_rate:g}")
        after = 1 + np.flatnonzero(run.drawn.values[:-1] == STAR)
        loss.plot(after, run.loss.values[after], "o", color=PALETTE[0], markersize=4, label="after a draw of x*")
        loss.set(xlabel="step", ylabel="loss on all the data", title="Spikes, and the draws of x*")
        loss.legend(loc="lower left")
        every_run = measured.sel(arm="between").transpose("step", "seed", ...)
        kernel.plot(every_run.step, every_run.star_kernel, color=PALETTE[0], linewidth=1.1)
        kernel.plot(every_run.step, every_run.other_kernel, color=PALETTE[1], linewidth=1.1)
        kernel.plot([], [], color=PALETTE[0], label="x*")
        kernel.plot([], [], color=PALETTE[1], label="largest of the others")
        kernel.axhline(1 / self.rate, **THEORY, label="1/η")
        kernel.set(xlabel="step", ylabel="K(x, x)", ylim=(0, None), title="The kernel falls below 1/η, all seeds")
        kernel.legend(loc="upper right")
        return {"single-example": figure}
