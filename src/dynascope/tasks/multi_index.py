"""Regression on a function of a few directions of a Gaussian input, with label noise.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Section 4.5 and Appendix C.6: x ~ N(0, I_d),
y = f*(x) + N(0, noise^2), mean squared error, and

    rank-2      x1 x2
    rank-3      x1 x2 (x1 + ... + x10)
    rank-4      x1 + x1 x2 + x1 x2 x3 + x1 x2 x3 x4
    full-rank   |x| / sqrt(d)

The directions that matter are those of the expected gradient outer product G* = E grad f* grad f*^T.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.task import SampledTask

Kind = Literal["rank-2", "rank-3", "rank-4", "full-rank"]

TERMS = 10
"""The number of coordinates in the sum of the rank-3 target."""
_DIRECTIONS = {"rank-2": 2, "rank-3": TERMS, "rank-4": 4, "full-rank": 1}


class MultiIndex(SampledTask):
    """Regression on a function of a few directions. Test labels are noisy too, so that the expected test loss is at
    least noise^2."""

    kind: Kind = eqx.field(static=True, default="rank-2")
    """The target: "rank-2", "rank-3", "rank-4" or "full-rank"."""
    dim: int = eqx.field(static=True, default=100)
    """The number d of inputs."""
    noise: float = eqx.field(static=True, default=0.1)
    """The standard deviation of the label noise."""

    def __check_init__(self) -> None:
        checks.one_of("kind", self.kind, get_args(Kind))
        checks.real("noise", self.noise, at_least=0)
        if checks.whole("dim", self.dim, at_most=2**31 - 1) < _DIRECTIONS[self.kind]:
            raise ValueError(f"dim must be at least {_DIRECTIONS[self.kind]} for {self.kind}; got {self.dim}")

    def target(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """f*, without noise.

        Args:
            x: Inputs, (..., d).
        """
        if self.kind == "rank-2":
            return x[..., 0] * x[..., 1]
        if self.kind == "rank-3":
            return x[..., 0] * x[..., 1] * jnp.sum(x[..., :TERMS], axis=-1)
        if self.kind == "rank-4":
            return x[..., 0] * (1 + x[..., 1] * (1 + x[..., 2] * (1 + x[..., 3])))
        return jnp.linalg.norm(x, axis=-1) / jnp.sqrt(jnp.asarray(self.dim, x.dtype))

    def sample(self, key: PRNGKeyArray, count: int) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """`count` inputs and their noisy labels."""
        checks.sizes(count=count)
        for_inputs, for_noise = jax.random.split(checks.key("key", key))
        x = jax.random.normal(for_inputs, (count, self.dim))
        return x, self.target(x) + self.noise * jax.random.normal(for_noise, (count,))

    def loss(self, model: Any, data: tuple[Float[Array, "n d"], Float[Array, " n"]]) -> Float[Array, ""]:
        """The mean squared error of a model with one output."""
        x, y = data
        return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)

    def second_moment(self) -> float:
        """E f*^2, the loss of the constant output 0 without the noise."""
        return {"rank-2": 1.0, "rank-3": TERMS + 4.0, "rank-4": 4.0, "full-rank": 1.0}[self.kind]

    def gradient_outer_product(self) -> Float[Array, "d d"]:
        """G*, in closed form."""
        if self.kind == "full-rank":
            return jnp.eye(self.dim) / self.dim**2
        blank = jnp.zeros((self.dim, self.dim))
        if self.kind == "rank-2":
            return blank.at[(0, 1), (0, 1)].set(1)
        if self.kind == "rank-4":
            return blank.at[jnp.arange(4), jnp.arange(4)].set(jnp.array([4.0, 3.0, 2.0, 1.0]))
        rest = blank.at[:TERMS, :TERMS].set(1).at[:2, 2:TERMS].set(2).at[2:TERMS, :2].set(2)
        return rest.at[(0, 1), (0, 1)].set(TERMS + 5).at[(0, 1), (1, 0)].set(5)
