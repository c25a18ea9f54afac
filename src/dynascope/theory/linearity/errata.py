"""What Chapter 2 of "Toward Understanding the Dynamics of Over-parameterized Neural Networks" prints and arithmetic
refutes.

Each erratum carries the printed statement, what holds instead, and `evidence()`: numbers of a counter-example, computed
afresh, with the verdict whether they refute the statement. Slips of notation without consequence are not listed, nor
are measurements that did not reproduce: those are claims of the experiments.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import stats

from dynascope.theory.erratum import Erratum, Evidence
from dynascope.theory.linearity.bounds import gradient_bound, relu_gradient_second_moment
from dynascope.theory.linearity.gaussian_series import series_tail


def series_radius(scale: float = 0.1, radius: float = 10.0, t: float = 0.5) -> Evidence:
    """One 1 x 1 matrix (b): Z = (g + R) b. With R nu = R b^2 the level lies below the mean of Z."""
    nu = scale**2
    allowed = 2 * math.exp(-(t**2) / (2 * nu))
    right = series_tail(np.full((1, 1, 1), scale), radius, t)

    def exceeds(level: float) -> float:
        """P(|g + R| b >= level)."""
        return float(stats.norm.sf(level / scale - radius) + stats.norm.cdf(-level / scale - radius))

    numbers = {
        "allowed probability": allowed,
        "P(|Z| >= t + R nu)": exceeds(t + radius * nu),
        "P(|Z| >= t + R sqrt nu)": exceeds(right.level),
    }
    return Evidence(numbers, numbers["P(|Z| >= t + R nu)"] > allowed >= numbers["P(|Z| >= t + R sqrt nu)"])


def mean_gradient(depth: int = 6, draws: int = 200_000) -> Evidence:
    """A chain of ReLU neurons, one in each layer, x ~ N(0, 1). All its L - 1 gates are open with probability 2^(1-L),
    and else the gradient is 0: E ||grad f|| <= 2^(1-L) sqrt L, whatever is drawn."""
    z = np.random.default_rng(0).standard_normal((draws, depth + 1))
    opened = np.all(z[:, :depth].cumprod(axis=1)[:, 1:] > 0, axis=1)  # the signs of x w_1 ... w_l, all positive
    squares = z**2
    norms = np.sqrt(squares.prod(axis=1) * (1 / squares[:, 1:]).sum(axis=1)) * opened
    numbers = {
        "bound": gradient_bound(depth),
        "mean of |grad f|": float(norms.mean()),
        "its standard error": float(norms.std() / math.sqrt(draws)),
        "exact upper bound of the mean": math.sqrt(depth) * 2.0 ** (1 - depth),
        "root mean square": math.sqrt(relu_gradient_second_moment(depth)),
    }
    below = numbers["exact upper bound of the mean"] < numbers["bound"]
    return Evidence(numbers, below and numbers["root mean square"] >= numbers["bound"])


def derivative_too_high(sigma: Callable[[Array], Array] = jnp.square, at: float = 10.0) -> Evidence:
    """sigma(z) = z^2: sigma' is 2-Lipschitz and sigma'' is constant, yet |sigma'| <= gamma_1 = 2 fails at z = 10."""
    slope, bend = jax.grad(sigma), jax.grad(jax.grad(sigma))
    everywhere = jnp.linspace(-2 * at, 2 * at, 401)
    numbers = {
        "gamma_1, Lipschitz constant of the derivative": float(jnp.max(jnp.abs(jax.vmap(bend)(everywhere)))),
        f"derivative at {at:g}": float(jnp.abs(slope(jnp.asarray(at)))),
    }
    lipschitz, derivative = numbers.values()
    return Evidence(numbers, derivative > lipschitz)


def removal_scale(degree: int = 400, probability: float = 0.5, neurons: int = 20_000) -> Evidence:
    """A neuron with 400 incoming values 1, half its edges removed: the variance of its sum under either division."""
    draw = np.random.default_rng(0)
    kept = draw.binomial(degree, 1 - probability, neurons)
    total = draw.standard_normal(neurons) * np.sqrt(kept)  # the sum of as many N(0, 1) weights
    numbers = {
        "variance, old in-degree": float(np.mean(total**2 / degree)),
        "variance, in-degree after removal": float(np.mean(total**2 / np.maximum(kept, 1))),
    }
    return Evidence(numbers, abs(numbers["variance, old in-degree"] - (1 - probability)) < 0.02)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        "series-radius",
        "Lemma A.11.8",
        "P(|Z| >= t + R nu) <= (d1 + d2) exp(-t^2 / (2 nu)) for a matrix Gaussian series moved by R",
        "R sqrt nu, as in its proof: a move by R changes Z by R sqrt nu",
        series_radius,
    ),
    Erratum(
        "mean-gradient",
        "Proposition 2.4.4",
        "E |grad f| is at least 2^(-L/2) for ReLU networks",
        "its proof takes E |.|^2 for (E |.|)^2; sqrt E |grad f|^2 is at least that, the mean need not be (width 1)",
        mean_gradient,
    ),
    Erratum(
        "smoothness-assumption",
        "Assumption 2.3.2",
        "sigma' is gamma_1-Lipschitz and sigma'' is gamma_2-Lipschitz",
        "sigma and sigma' are: the proofs use |sigma'| <= gamma_1 and |sigma''| <= gamma_2",
        derivative_too_high,
    ),
    Erratum(
        "removal-scale",
        "Appendix A.6, random edge removal",
        "a neuron that lost edges is divided by the root of its old in-degree",
        "by that of the in-degree left, as the definition (2.2) has it; else each layer shrinks by the share removed",
        removal_scale,
    ),
)
