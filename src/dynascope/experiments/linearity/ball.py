"""Theorems 2.3.6 and 2.3.8: the Hessian of outputs and of pre-activations, in a ball around the start."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from jaxtyping import Array, Float, Int, Key
from pydantic import Field, PositiveInt

from dynascope.curves import scaling_exponent
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.figures import PALETTE, THEORY, panels
from dynascope.geometry.eigenpairs import top_eigenpairs
from dynascope.geometry.hessian import flatten
from dynascope.lab.criteria import below
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.models import dag_architectures as architectures

LAYERS, NEURONS = (1, 2, 3), 4
"""The layers whose pre-activations are measured, and how many of each; those of the last are the outputs."""
FALLS, GROWS = -0.3, 0.1
"""The slope of a norm of order 1/√m, up to logarithms, at most; and that of a ratio that does not grow."""


class Ball(Experiment):
    """Does the Hessian stay small in a whole ball around the start, for the output and for every pre-activation?"""

    id = "linearity.ball"
    source = Source(OVER_PARAMETERIZED, "Theorem 2.3.6, Theorem 2.3.8, Remark 2.3.9")
    cost = {"quick": 20, "full": 240}
    presets = {"quick": {"widths": (16, 32, 64, 128), "seeds": 4}}
    control = {"output": "shifted tanh"}
    notes = """Fully connected tanh networks, one input with |x|² = d. A pre-activation of layer l is the output of a
    network of l layers; four of each are measured. The largest norm seen in the ball is that at the start and at the
    distance `radius` along the gradient and the Hessian's top eigenvector, both ways: a lower bound on the supremum.
    In the control outputs are tanh(f + 1), for which the theorem does not hold."""

    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=2)] = (32, 64, 128, 256, 512)
    dim: PositiveInt = 10
    radius: float = Field(1.0, gt=0)
    """The radius R of the ball."""
    output: Literal["linear", "shifted tanh"] = "linear"
    seeds: PositiveInt = 8

    def measure(self, seed: int) -> xr.Dataset:
        seeds, found = member_seeds(seed, self.seeds), []
        grid = np.repeat(np.asarray(self.widths, np.int32), self.seeds)
        streams = jnp.asarray(grid), jnp.asarray(np.tile(seeds, len(self.widths)))
        keys = jax.vmap(lambda width, seed: jax.random.fold_in(jax.random.key(seed), width))(*streams)
        radius = jnp.asarray(np.dtype(self.precision).type(self.radius))
        for layer in LAYERS:
            sizes = np.array([[self.dim, *[int(width)] * (layer - 1), NEURONS] for width in grid], np.int32)
            largest = (self.dim, *[max(self.widths)] * (layer - 1), NEURONS)
            norms = np.asarray(norms_in_ball(largest, self.output, jnp.asarray(sizes), keys, radius))
            found.append(norms.reshape(len(self.widths), self.seeds, NEURONS, -1))
        coords = {"layer": list(LAYERS), "width": list(self.widths), "seed": seeds}
        return xr.Dataset({"norm": (("layer", "width", "seed", "neuron", "point"), np.array(found))}, coords)

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        """The norm at the start, and the largest seen in the ball."""
        return xr.Dataset({"start": measured.norm.isel(point=0), "ball": measured.norm.max("point")})

    def judge(self, reduced: xr.Dataset) -> Claims:
        output = reduced.sel(layer=LAYERS[-1]).isel(neuron=0)
        about: dict[str, Any] = {"source": "Theorem 2.3.6"}
        about["printed"] = "for all w ∈ B(w0, R), each output neuron satisfies ‖H_fk(w)‖ = Õ(R^(L²)/√m)"
        middle = output.ball.median("seed")
        statement = (
            f"The largest Hessian norm of the output seen within a distance of {self.radius:g} falls as m^(-1/2), "
        )
        statement += "up to logarithms: its slope"
        yield below("ball", statement, exponent(middle), FALLS, shown={"norm": middle}, **about)
        statement = "It is of the order of that at the start: the slope of their ratio"
        about["printed"] = "controls ‖H(w) - H(w0)‖ such that it is no larger than the order of ‖H(w0)‖"
        ratio = (output.ball / output.start).median("seed")
        yield below("same-order", statement, exponent(ratio), GROWS, shown={"ratio": ratio}, **about)
        about["source"] = "Theorem 2.3.8"
        about["printed"] = "any pre-activation in a feedforward neural network satisfies ‖H(w)‖ = Õ(R^(ℓ²)/√m)"
        largest = reduced.ball.sel(layer=list(LAYERS[1:])).max("neuron").median("seed")
        values = [exponent(one) for one in largest]
        statement = (
            f"The largest of {NEURONS} pre-activations of the second and of the third layer falls so too: slopes"
        )
        yield below("pre-activations", statement, np.array(values), FALLS, shown={"norms": largest}, **about)
        about["source"], about["printed"] = (
            "Remark 2.3.9",
            "in the first layer … the spectral norm of their Hessian is zero",
        )
        statement = "Pre-activations of the first layer are linear: their largest Hessian norm"
        yield below("first-layer", statement, reduced.ball.sel(layer=1).max(), 1e-6, **about)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(1, size=(5.4, 4.0))
        for layer, color in zip(LAYERS[1:], PALETTE, strict=False):
            one = reduced.sel(layer=layer).max("neuron").median("seed")
            axes.loglog(one.width, one.ball, "o-", color=color, label=f"layer {layer}, in the ball")
            axes.loglog(one.width, one.start, "--", color=color, label=f"layer {layer}, at the start")
        width, first = reduced.width.values, reduced.ball.sel(layer=LAYERS[-1]).max("neuron").median("seed")[0]
        axes.loglog(width, float(first) * np.sqrt(width[0] / width), label="slope -1/2", **THEORY)
        axes.set(xlabel="width m", ylabel="Hessian norm", title=f"Largest of {NEURONS} pre-activations")
        axes.set_xticks(width, [str(m) for m in width])
        axes.minorticks_off()
        axes.legend(fontsize=8)
        return {"ball": figure}


def exponent(values: xr.DataArray) -> float:
    """The slope of the logarithm in that of the width."""
    return float(scaling_exponent(values.width.values, values.values))


@eqx.filter_jit
def norms_in_ball(
    largest: tuple[int, ...], output: str, sizes: Int[Array, "n l"], keys: Key[Array, " n"], radius: Float[Array, ""]
) -> Float[Array, "n k p"]:
    """For each network and output neuron the Hessian norm at the start and at four points at a distance `radius`."""

    def one(given: tuple[Array, Array]) -> Array:
        size, key = given
        for_net, for_x = jax.random.split(key)
        x = jax.random.normal(for_x, (largest[0],))
        x = x * jnp.sqrt(jnp.asarray(largest[0], x.dtype)) / jnp.linalg.norm(x)
        net = architectures.fully_connected(largest, key=for_net, activation="tanh", output=output)
        net = architectures.narrow_layers(net, size)

        def around(neuron: Array) -> Array:
            flat = flatten(lambda net: net(x)[neuron], net, "function")

            def top(point: Array) -> Any:
                return top_eigenpairs(flat.objective, point, 1, tolerance=1e-3, which="magnitude")

            start, gradient = top(flat.point), jax.grad(flat.objective)(flat.point)
            rows = jnp.stack([gradient / jnp.linalg.norm(gradient), start.vectors[0]]) * radius
            points = flat.point + jnp.concatenate([rows, -rows])
            moved = lax.map(lambda point: jnp.abs(top(point).values[0]), points)
            return jnp.concatenate([jnp.abs(start.values[:1]), moved])

        return lax.map(around, jnp.arange(largest[-1]))

    return lax.map(one, (sizes, keys))
