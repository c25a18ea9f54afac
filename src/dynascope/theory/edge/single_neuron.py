"""One ReLU neuron above the threshold: w aligns with the teacher, then v and |w| oscillate and become equal.

"Simple structures in neural networks", Theorem 3.5, Proposition 4 and Appendix B.9, for a unit teacher and
eta = K d, in the variables v, wx, wy of `tasks.single_neuron.reduced_step`.
"""

from __future__ import annotations

import math
from typing import Annotated

import jax.numpy as jnp
from jaxtyping import Array, Bool

from dynascope.tasks.scalar_losses import Values, real
from dynascope.tasks.single_neuron import Reduced, reduced_step
from dynascope.theory.domains import Keys, NotNegative, Positive, PositiveNumber, check_arguments
from dynascope.theory.edge.quartic_orbit import normalized_orbit

State = Annotated[Reduced, Keys(("v", "wx", "wy"))]
GROWTH = 2.56
"""In stage 1 the product v wx grows by at least this factor per step."""

STAGE_ONE = {"slope": (0.0, 2.7), "height": (0.0, 0.44), "gap": (-0.017, 0.17), "product": (0.0, 1 / (2 * math.pi))}
"""Ranges of wy/wx, wy, v - wx and v wx in stage 1, from the first step on."""
BASIN = {"gap_below": (-0.735, 0.23), "gap_above": (-0.474, 0.148), "product": (0.181, 1.5)}
"""Ranges of v wx and v - wx from t = T1 + 4 on; the gap v - wx while v wx <= 1, and while it is above."""


@check_arguments
def growth_steps(size: Positive) -> Values:
    """The bound of Theorem 3.5 on stage 1: T1 = ceil(log_2.56(1.35/(pi beta^2))), beta = (1 + 1.1/pi) eps.

    Args:
        size: |w0| = v0 = eps, at most 0.1 for the theorem. Positive, any shape.
    """
    beta = (1 + 1.1 / math.pi) * real(size)
    return jnp.ceil(jnp.log(1.35 / (math.pi * beta**2)) / math.log(GROWTH))


@check_arguments
def height_bound(steps: NotNegative, K: Positive, size: Positive) -> Values:
    """0.1 (1 - 0.030 K)^(t - T1 - 4), which bounds wy for t >= T1 + 4 (Theorem 3.5); infinite before.

    Args:
        steps: Number of steps t. Not negative, any shape.
        K: K = eta/d, in (1, 1.1] for the theorem. Positive, any shape.
        size: |w0| = v0 = eps, at most 0.1 for the theorem. Positive, any shape.
    """
    since = real(steps) - growth_steps(size) - 4
    return jnp.where(since >= 0, 0.1 * (1 - 0.030 * real(K)) ** jnp.maximum(since, 0), jnp.inf)


@check_arguments
def height_decay(K: Positive) -> Values:
    """|1 - K|: the factor of wy per two steps, on the orbit, since (1 - K d1^2)(1 - K d2^2) = 1 - K.

    Args:
        K: K = eta/d, in (1, 1.1] for the theorem. Positive, any shape.
    """
    return jnp.abs(1 - real(K))


@check_arguments
def limit(K: Positive) -> Reduced:
    """The two points of the orbit, along a last axis: wy = 0, v = wx = d_i (Proposition 4).

    Args:
        K: K = eta/d, in (1, 1.1] for the theorem. Positive, any shape.
    """
    points = jnp.stack(normalized_orbit(K), axis=-1)
    return {"v": points, "wx": points, "wy": jnp.zeros_like(points)}


@check_arguments
def in_stage_one(state: State) -> Bool[Array, " ..."]:
    """v wx <= wx wy / (pi |w|^2): while the angle to the teacher decreases.

    Args:
        state: `v`, `wx` and `wy`, of one shape.
    """
    v, wx, wy = state["v"], state["wx"], state["wy"]
    return v * wx <= wx * wy / (math.pi * (wx**2 + wy**2))


@check_arguments
def update_defect(state: State, K: Positive) -> Values:
    """v Dv - wx Dwx - wy Dwy of one step, which is 0 (before the absolute value is taken of wy).

    Args:
        state: `v`, `wx` and `wy`, of one shape.
        K: K = eta/d, in (1, 1.1] for the theorem. Positive, any shape.
    """
    v, wx, wy = state["v"], state["wx"], state["wy"]
    after, square = reduced_step(state, K), wx**2 + wy**2
    height_change = -K * (v**2 * wy - v / math.pi * wy**2 / square)
    return v * (after["v"] - v) - wx * (after["wx"] - wx) - wy * height_change


@check_arguments
def spread_of_sampled_K(rate: PositiveNumber, dim: int, samples: int) -> float:
    """The standard deviation of K = 2 eta mean(relu(x1)^2) over samples on the sphere: 2 eta sd(relu(x1)^2)/sqrt(n),
    with E x1^4 = 3/(d(d+2)).

    Args:
        rate: Learning rate eta. Positive.
        dim: Dimension d.
        samples: Number of points n in a sample.
    """
    fourth = 1.5 / (dim * (dim + 2))
    return 2 * rate * math.sqrt((fourth - (0.5 / dim) ** 2) / samples)
