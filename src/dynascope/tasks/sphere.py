"""Points on the unit sphere with label 1, one of which is doubled together with its label.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Figure 4.5: the tangent kernel of a two-layer
network without biases is about four times larger at the doubled example, so its critical rate is a quarter of the
others', and stochastic gradient descent between the two catapults when it draws that example.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.single_neuron import sphere_points


def doubled_example(
    key: PRNGKeyArray, count: int = 100, dim: int = 100, which: int = 0
) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
    """Points on the unit sphere with label 1, one of which is doubled together with its label.

    Args:
        key: Key of the points.
        count: Number of points.
        dim: Number of dimensions d.
        which: The example that is doubled.
    """
    checks.sizes(count=count, dim=dim)
    checks.whole("which", which, at_least=0, at_most=count - 1)
    x, y = sphere_points(checks.key("key", key), count, dim), jnp.ones(count)
    return x.at[which].multiply(2), y.at[which].set(2)
