"""Counter-examples to statements of Chapter 2 of "Toward Understanding the Dynamics of Over-parameterized Neural
Networks". Each function returns the numbers of one; `experiments.catapult.errata` quotes the printed statements and
judges them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import stats

from dynascope.theory.domains import check_arguments
from dynascope.theory.linearity.bounds import gradient_bound, relu_gradient_second_moment
from dynascope.theory.linearity.gaussian_series import series_tail

Found = dict[str, float]


def series_radius() -> Found:
    """The allowed probability, and those of exceeding the printed and the corrected level, for one 1 x 1 matrix (b): Z
    = (g + R) b. With R nu = R b^2 the level lies below the mean of Z."""
    scale, radius, t = 0.1, 10.0, 0.5
    nu, right = scale**2, series_tail(np.full((1, 1, 1), scale), radius, t)

    def exceeds(level: float) -> float:
        """P(|g + R| b >= level)."""
        return float(stats.norm.sf(level / scale - radius) + stats.norm.cdf(-level / scale - radius))

    allowed = 2 * math.exp(-(t**2) / (2 * nu))
    return {"allowed": allowed, "printed": exceeds(t + radius * nu), "corrected": exceeds(right.level)}


@check_arguments
def mean_gradient(depth: int = 6) -> Found:
    """The mean gradients, and their bounds, of chains of one neuron in each layer, x and the weights N(0, 1).

    With the identity every bound is 1: E |grad f| of one layer is E |x| = sqrt(2/pi), and of more layers it is
    estimated from draws. With ReLUs, which are homogeneous for positive factors only, all gates are open with
    probability 2^(1-L), and else the gradient is 0: E |grad f| <= 2^(1-L) sqrt L.

    Args:
        depth: Number of layers L. Default: 6.
    """
    draws = 200_000
    squares = np.random.default_rng(0).standard_normal((draws, depth + 1)) ** 2
    norms = np.sqrt(squares.prod(axis=1) * (1 / squares[:, 1:]).sum(axis=1))
    return {
        "one_layer": math.sqrt(2 / math.pi),
        "identity": float(norms.mean()),
        "identity_error": float(norms.std() / math.sqrt(draws)),
        "relu": math.sqrt(depth) * 2.0 ** (1 - depth),
        "relu_bound": gradient_bound(depth),
        "relu_root_mean_square": math.sqrt(relu_gradient_second_moment(depth)),
    }


@check_arguments
def derivative_too_high(sigma: Callable[[Array], Array] = jnp.square) -> Found:
    """sigma(z) = z^2: sigma' is 2-Lipschitz and sigma'' is constant, yet |sigma'| <= gamma_1 = 2 fails at z = 10.

    Args:
        sigma: The activation. Default: jnp.square.
    """
    at = 10.0
    slope, bend = jax.grad(sigma), jax.grad(jax.grad(sigma))
    everywhere = jnp.linspace(-2 * at, 2 * at, 401)
    lipschitz = float(jnp.max(jnp.abs(jax.vmap(bend)(everywhere))))
    return {"lipschitz": lipschitz, "derivative": float(jnp.abs(slope(jnp.asarray(at))))}


@check_arguments
def removal_scale(probability: float = 0.5) -> Found:
    """The variance of a neuron's sum of incoming values 1, with some edges removed, for both normalizations.

    Args:
        probability: Probability with which each edge is removed. Default: 0.5.
    """
    draw, degree, neurons = np.random.default_rng(0), 400, 20_000
    kept = draw.binomial(degree, 1 - probability, neurons)
    total = draw.standard_normal(neurons) * np.sqrt(kept)  # the sum of as many N(0, 1) weights
    return {"old": float(np.mean(total**2 / degree)), "left": float(np.mean(total**2 / np.maximum(kept, 1)))}


COUNTER_EXAMPLES = {
    "series-radius": series_radius,
    "mean-gradient": mean_gradient,
    "derivative-too-high": derivative_too_high,
    "removal-scale": removal_scale,
}
"""The counter-examples by the names of their claims."""
