"""Points on the unit sphere with labels 1, and one example that is twice as large, label and all.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Figure 4.5: the tangent kernel of a two-layer
network without biases is about four times larger at the doubled example, so its critical rate is a quarter of the
others', and stochastic gradient descent between the two catapults when it draws that example.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope.tasks.single_neuron import sphere


def doubled_example(
    key: PRNGKeyArray, count: int = 100, dim: int = 100, which: int = 0
) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
    """`count` points and labels; the example number `which` is doubled."""
    if not 0 <= which < count:
        raise ValueError(f"which example is doubled must be 0 to {count - 1}; got {which}")
    x, y = sphere(key, count, dim), jnp.ones(count)
    return x.at[which].multiply(2), y.at[which].set(2)
