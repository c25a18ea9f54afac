"""Three parameterizations of one network: how the best learning rate, the sharpness and the features change with the
width."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import TENSOR_PROGRAMS
from dynascope.figures import PALETTE, THEORY, panels
from dynascope.geometry.kernel_spectrum import critical_rate
from dynascope.lab.criteria import above, agrees, below
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.models import MLP
from dynascope.theory.features.parameterizations import width_exponents

Name = Literal["mup", "ntk", "standard"]
NAMES = {"mup": "muP", "ntk": "NTK", "standard": "standard"}
CLOSE = 0.25
"""How far an exponent may be from theory's: two steps of the grid of rates over three octaves of width are 1/3."""
TASK = ds.tasks.MultiIndex("rank-2", dim=8, noise=0.0)
TESTED = 128
"""Inputs of the outer product."""
FIRST_RATES = {"mup": 4.0, "ntk": 4.0, "standard": 1.0}
"""About the critical rates, 2/λ of the tangent kernel at the start, of networks of width `NARROW`."""
NARROW = 32
RECORDED = ("loss", "movement", "critical", "alignment")
SHADES = ("#9ad0c2", "#4fb0a5", "#2d8a94", "#1f5f7a", "#1b3a57")
"""Of the widths, from the narrowest on."""


class WidthRun(ds.Member):
    """An ensemble member: a ReLU network of one width and parameterization, and gradient descent."""

    parameterization: Name
    width: int
    depth: int
    samples: int
    steps: int

    def __call__(self, rate: Array, seed: Array) -> ds.Descent:
        for_data, for_test, for_model = jax.random.split(jax.random.key(seed), 3)
        x, y = TASK.sample(for_data, self.samples)
        model = MLP(
            TASK.dim,
            self.depth,
            key=for_model,
            width=self.width,
            out=1,
            activation="relu",
            parameterization=self.parameterization,
        )
        start = hidden(model, x)

        def movement(snapshot: Any) -> Float[Array, ""]:
            return jnp.linalg.norm(hidden(snapshot.model, x) - start) / jnp.linalg.norm(start)

        ends, points = (0, self.steps), TASK.sample(for_test, TESTED)[0]
        probes = {
            "loss": ds.probes.loss(every=ends),
            "movement": ds.probes.probe(movement, every=ends),
            "critical": ds.probes.probe(lambda snapshot: critical_rate(snapshot.model, x), every=ends),
            "alignment": ds.probes.agop_alignment(TASK.gradient_outer_product(), points, every=ends),
        }
        return ds.Descent(model, TASK, optax.sgd(rate), data=(x, y), probes=probes)


class WidthTransfer(Experiment):
    """Is the best learning rate of a narrow network the best one of a wide network?"""

    id = "features.width-transfer"
    source = Source(TENSOR_PROGRAMS, "Sections 3 and 4, Table 1")
    cost = {"quick": 40, "full": 900}
    presets = {"quick": {"widths": (32, 64, 128, 256), "seeds": 3, "steps": 100}}
    control = {"parameterizations": ("standard",)}
    notes = """ReLU networks of three layers, gradient descent on the product of two of eight coordinates, a fixed
    number of steps. A rate of the grid is a power of √2 times the rate that theory scales from width 32, where it is
    about the critical one. The best rate has the lowest median loss at the end; at an end of the grid there is none. The control has the standard
    parameterization alone, whose best rate falls as 1/width."""

    parameterizations: Annotated[tuple[Name, ...], Field(min_length=1)] = ("mup", "ntk", "standard")
    """The main claim is about the first."""
    widths: Annotated[tuple[Annotated[int, Field(ge=4)], ...], Field(min_length=2)] = (64, 128, 256, 512, 1024)
    depth: Annotated[int, Field(ge=2)] = 3
    samples: Annotated[int, Field(ge=4)] = 64
    octaves: tuple[float, float] = (-5.0, 2.0)
    """The grid of rates, from the lowest to the highest power of two times the one that theory scales."""
    steps: Annotated[int, Field(ge=10)] = 200
    seeds: PositiveInt = 5

    @model_validator(mode="after")
    def _rises(self) -> Any:
        if self.octaves[0] >= self.octaves[1]:
            raise ValueError(f"octaves must rise; got {self.octaves}")
        return self

    def powers(self) -> Float[np.ndarray, " rate"]:
        """The rates over those that theory scales."""
        low, high = self.octaves
        return 2 ** np.arange(low, high + 1e-9, 0.5)

    def measure(self, seed: int) -> xr.Dataset:
        seeds = member_seeds(seed, self.seeds)
        rows = [
            xr.concat([self._train(name, width, seeds) for width in self.widths], "width")
            for name in self.parameterizations
        ]
        joined = xr.concat(rows, "parameterization")
        return joined.assign_coords(parameterization=list(self.parameterizations), width=list(self.widths))

    def _train(self, name: Any, width: int, seeds: np.ndarray) -> xr.Dataset:
        scaled = FIRST_RATES[name] * (width / NARROW) ** width_exponents(name, self.depth).rate
        rates = (scaled * self.powers()).astype(np.float32)
        member = WidthRun(name, width, self.depth, self.samples, self.steps)
        trace = ds.ensemble(member, {"rate": rates, "seed": seeds}, steps=self.steps, keep=False).trace
        ends = xr.Dataset(
            {name: trace[name].isel({f"{name}_step": -1}, drop=True) for name in RECORDED}
            | {"critical_start": trace.critical.isel(critical_step=0, drop=True)}
        )
        return ends.drop_vars(["rate", "seed"], errors="ignore").assign(step_size=("rate", rates))

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        loss = measured.loss.where(np.isfinite(measured.loss), np.inf).median("seed")
        best = loss.argmin("rate")
        inside = (best > 0) & (best < loss.sizes["rate"] - 1)
        chosen = measured.isel(rate=best)
        sharpness = 2 / chosen.critical
        found = {
            "best_rate": chosen.step_size,
            "best_loss": chosen.loss.median("seed"),
            "movement": chosen.movement.median("seed"),
            "alignment": chosen.alignment.median("seed"),
            "sharpness": sharpness.median("seed"),
            "sharpness_times_rate": (sharpness * chosen.step_size).median("seed"),
            "critical_start": measured.critical_start.isel(rate=0, drop=True).median("seed"),
        }
        reduced = xr.Dataset({name: values.where(inside) for name, values in found.items()})
        return reduced.assign(loss=loss, step_size=measured.step_size)

    def judge(self, reduced: xr.Dataset) -> Claims:
        about: dict[str, Any] = {"seeds": self.seeds, "source": "Table 1"}
        first = self.parameterizations[0]
        slopes = {name: exponents(reduced[name]) for name in ("best_rate", "movement", "critical_start")}
        theory = xr.DataArray(
            [width_exponents(name, self.depth) for name in self.parameterizations],
            {"parameterization": list(self.parameterizations)},
            ("parameterization", "of"),
        )
        statement = f"The best learning rate of {NAMES[first]} networks is the same at every width (its exponent in "
        statement += "the width, from 0)"
        grid = "The grid: at first it began at 1/8 of the critical rate, above the best rate of muP."
        yield below("transfers", statement, abs(float(slopes["best_rate"][0])), CLOSE, post_hoc=grid, **about)
        statement = "The best rate scales with the width as theory says, in every parameterization (exponent)"
        yield agrees(
            "best-rate", statement, slopes["best_rate"], theory[:, 0].values, absolute=CLOSE, post_hoc=grid, **about
        )
        statement = "So does the critical rate at the start"
        yield agrees("critical-rate", statement, slopes["critical_start"], theory[:, 0].values, absolute=CLOSE, **about)
        statement = "The last hidden layer moves at the best rate as theory says: by the same share at every width "
        statement += "under muP, by 1/√width otherwise (exponent)"
        shown = {"movement": slopes["movement"]}
        moved = theory[:, 1].values
        yield agrees("movement", statement, slopes["movement"], moved, absolute=CLOSE, shown=shown, **about)
        if {"mup", "ntk"} <= set(self.parameterizations):
            widest = reduced.alignment.sel(width=max(self.widths))
            lead = float(widest.sel(parameterization="mup") - widest.sel(parameterization="ntk"))
            statement = "The widest muP network has better features at its best rate than the widest NTK network (lead "
            statement += "in the alignment of gradients)"
            yield above("better-features", statement, lead, 0.05, seeds=self.seeds)
        statement = "At the best rate no network ends above the edge of stability (rate times sharpness of the kernel)"
        yield below("edge", statement, reduced.sharpness_times_rate, 2.2, seeds=self.seeds)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, grid = panels(3, 2, size=(4, 3.2), squeeze=False)
        curves, ends = grid.reshape(2, 3)
        for axes, name in zip(curves, self.parameterizations, strict=False):
            chosen = reduced.sel(parameterization=name)
            for color, width in zip(SHADES, self.widths, strict=False):
                row = chosen.sel(width=width)
                loss = row.loss.where(np.isfinite(row.loss))
                axes.plot(row.step_size, loss, "o-", color=color, markersize=3, label=f"{width}")
            axes.set(xscale="log", yscale="log", xlabel="learning rate", title=NAMES[name])
        curves[0].set_ylabel("loss at the end")
        curves[0].legend(title="width", fontsize=7)
        shown = {"best_rate": "best learning rate", "movement": "movement of the last hidden layer"}
        shown |= {"alignment": "alignment of gradients"}
        for axes, (quantity, label) in zip(ends, shown.items(), strict=True):
            for color, name in zip(PALETTE, self.parameterizations, strict=False):
                row = reduced[quantity].sel(parameterization=name)
                axes.plot(row.width, row, "o-", color=color, label=NAMES[name])
                if quantity != "alignment":
                    power = width_exponents(name, self.depth)[0 if quantity == "best_rate" else 1]
                    axes.plot(row.width, float(row[0]) * (row.width / row.width[0]) ** power, **THEORY)
            axes.set(xscale="log", xlabel="width", title=label, yscale="log" if quantity != "alignment" else "linear")
        ends[0].legend(fontsize=8)
        return {"width-transfer": figure}


def hidden(model: MLP, x: Float[Array, "n d"]) -> Float[Array, "n width"]:
    """The last hidden layer at every input."""

    def one(h: Array) -> Array:
        for layer in range(len(model.weights) - 1):
            h = jax.nn.relu(model.affine(layer, h))
        return h

    return jax.vmap(one)(x)


def exponents(values: xr.DataArray) -> Float[np.ndarray, " parameterization"]:
    """The slope of the logarithm over that of the width, in every row; NaN if a value is missing."""
    rows, widths = values.transpose("parameterization", "width").values, np.log(values.width.values)
    return np.array([np.nan if np.isnan(row).any() else np.polyfit(widths, np.log(row), 1)[0] for row in rows])
