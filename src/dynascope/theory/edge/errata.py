"""Counter-examples to statements of Chapter 3 and Appendix B of "Simple structures in neural networks".

Each function returns the numbers of one; `experiments.edge.errata` quotes the printed statements and judges them.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dynascope import checks
from dynascope.dynamics.bifurcation import escape_times
from dynascope.geometry.orbits import leading_components, residual
from dynascope.tasks.factorization import Factorization, generic_start
from dynascope.tasks.products import two_factors
from dynascope.tasks.scalar_losses import BASE_MODELS, derivatives, power_series, quartic
from dynascope.theory.domains import Count, check_arguments
from dynascope.theory.edge import constraint_manifolds, factorization, quartic_orbit
from dynascope.theory.edge.factorization_stability import eigenvalues_at_minimum
from dynascope.theory.edge.neuron_intervals import I4, propagate
from dynascope.theory.edge.squared_margins import composition_condition, margin

SLOPE = 59 / 60
COUNTER_OUTER = power_series((0, 1, 1 / 2, SLOPE))
"""q = y + y^2/2 + 59 y^3/60: margin 0.1 at 0."""
RATIOS, ARGUMENTS = np.geomspace(0.05, 10, 61), np.geomspace(0.05, 50, 41)
"""m and x at which (B.100) is tested."""
Numbers = Float[np.ndarray, "..."] | float
Found = dict[str, float]


@check_arguments
def composition(bend: float = 0.5) -> Found:
    """The margins of p = x - bend x^2 + 59 x^3/60, of q, and of q(p), at 0 (Proposition 2).

    Args:
        bend: Half of -p'' at 0. Default: 0.5.
    """
    inner = power_series((0.0, 1.0, -bend, SLOPE))
    both = composition_condition(inner, COUNTER_OUTER, 0.0).margin
    margins = {"inner": margin(inner, 0.0), "outer": margin(COUNTER_OUTER, 0.0), "composite": both}
    return {f"{name}_margin": float(value) for name, value in margins.items()}


def _literal_manifold(rate: float = 1.08) -> Found:
    """(1/2, 1/2) is in M and M_c as defined: its gradient is orthogonal to the top eigenvector, and lambda = 3/4."""
    point, task = jnp.full(2, 0.5), two_factors()
    inside = [constraint_manifolds.in_manifold(point, rate, which, minimizers_only=False) for which in ("M", "M_c")]
    top = jnp.linalg.eigvalsh(task.hessian(point))[-1]
    loss = float(task(point)) if all(inside) else math.nan
    return {"manifold_loss": loss, "manifold_sharpness": float(top), "manifold_limit": 2 / rate}


@check_arguments
def bounded_share(
    first: float, second: float, *, starts: int = 40, steps: int = 1000, scale: float = 0.3, seed: Count = 0
) -> float:
    """The share of Gaussian starts of ||Y Z^T - diag(first, second)||^2/2 that stay bounded at eta = 1.

    Args:
        first: First diagonal entry.
        second: Second diagonal entry.
        starts: Number of starts. Default: 40.
        steps: Number of steps. Default: 1000.
        scale: Standard deviation of the starts. Default: 0.3.
        seed: Seed of the random starts. Not negative. Default: 0.
    """
    checks.sizes(starts=starts, steps=steps)
    keys = jax.random.split(jax.random.key(seed), starts)
    factors = jax.vmap(lambda key: generic_start(key, (2, 2, 2), scale))(keys)
    task = Factorization(jnp.diag(jnp.asarray([first, second])))
    return float(jnp.mean(escape_times(task.step, jnp.ones(starts), factors, steps=steps) < 0))


def _second_eigenvalue(starts: int = 400, seed: Count = 0) -> Found:
    """Shares of bounded runs at pairs (eta sigma_1^2, eta sigma_2^2); the first pair has eta sigma_2^2 > 1."""
    pairs = {"beyond_one": (1.1, 1.02), "beyond_line": (1.2, 0.95), "within_line": (1.2, 0.6)}
    return {f"share_{name}": bounded_share(*pair, starts=starts, seed=seed) for name, pair in pairs.items()}


def _observation_range() -> Found:
    """eta = 1/sigma_1^2 + beta: with beta sigma_1^2 = 1.1 < sqrt(4.5) - 1, K is 2.1."""
    return {"multiplier_at_21": float(quartic_orbit.multiplier(2.1))}


def _missing_scale(scale: float = 5.6955, K: float = 1.02) -> Found:
    """The distances by which two steps move rho and sigma_1 rho."""
    task, rho = quartic(scale**2), quartic_orbit.normalized_orbit(K).low

    def moved(point: jax.Array) -> float:
        return float(residual(lambda x: task.step(x, K / scale**2), point))

    return {"rho_moves": moved(rho), "scaled_rho_moves": moved(scale * rho)}


def _largest_singular_values(alpha: float = 0.8, second: float = 0.75, K: float = 1.02) -> Found:
    """On the low phase of the limit from X0 = diag(1, 0.75), sigma_max(Z) belongs to the bulk, 0.75/0.8."""
    root = jnp.diag(jnp.asarray([1.0, second]))
    low = factorization.quasi_symmetric_limit(root, alpha, K)[0]
    sizes = leading_components(low["Y"], low["Z"], root**2, jnp.asarray([1.0, 0.0]))
    return {f"phase_{name}": float(sizes[name]) for name in ("Y", "Z", "Y_norm", "Z_norm")}


def _existence_limit(K: float = 1.55) -> Found:
    """Beyond K = 1.5 the orbit is still there; (3.4) has lost its upper point."""
    high = quartic_orbit.normalized_orbit(K).high
    moves = residual(lambda x: quartic_orbit.step(x, K), high)
    return {"orbit_K": K, "orbit_moves": float(moves), "branch_K": float(quartic_orbit.implicit_rate(1.0, high))}


def _log_derivative(x: float = 0.7) -> Found:
    """The third derivative of log, over 2/x^3."""
    return {"log_third": float(derivatives(BASE_MODELS["log"].function, x, 3)[3]) * x**3 / 2}


def _height_bounds() -> Found:
    """The height of the box to which I4 is mapped: by (B.90) as printed, and by a valid bound."""
    return {"height_printed": propagate(I4, "printed").height, "height_valid": propagate(I4, "valid").height}


@check_arguments
def angle_ratio(m: Numbers, x: Numbers) -> Float[np.ndarray, " ..."]:
    """(arctan mx - mx/(1 + m^2 x^2)) / (arctan x - x/(1 + x^2)), which (B.100) bounds by m^3.

    Args:
        m: Ratio of the arguments. Any shape.
        x: The argument. Any shape.
    """
    return np.asarray(_segment(m * x) / _segment(x))


def _segment(x: Numbers) -> Numbers:
    return np.arctan(x) - x / (1 + x**2)


def _cube_bound() -> Found:
    """The ratio of (B.100) over m^3: its least value for m < 1, its largest for m >= 1."""
    over_cube = angle_ratio(RATIOS[:, None], ARGUMENTS) / RATIOS[:, None] ** 3
    return {"cube_below_one": over_cube[RATIOS < 0.999].min(), "cube_from_one": over_cube[RATIOS >= 1].max()}


def _half_step(mu: float = 1.0, rate: float = 1.2) -> Found:
    """1 - eta (mu - x) at the x printed in (B.41), and at the intended one."""
    printed, meant = mu - 1 / (2 * rate), mu + 1 / (2 * rate)
    return {"half_step_printed": 1 - rate * (mu - printed), "half_step_meant": 1 - rate * (mu - meant)}


def _missing_square() -> Found:
    """The growth of v wx at wy = 0.1: (B.125) as printed, and with its bracket squared."""
    bracket, last = 2 - 0.181 - float(_segment(2 - math.sqrt(3))) / math.pi, 1.1 * 0.1**2
    return {"growth_printed": bracket - last, "growth_squared": bracket**2 - last}


def _spectral_condition(alpha: float = 1.4, K: float = 1.02, bulk: float = 0.3) -> Found:
    """An eigenvalue of (B.183) and the side of its printed condition that must be below 2: they are the same."""
    eigenvalue = float(eigenvalues_at_minimum(K, bulk, alpha)[3])
    return {"spectral_printed": 1 - K * alpha**2 - bulk / alpha**2, "spectral_eigenvalue": eigenvalue}


def _remark_start(alpha: float = 0.8, size: float = 2.0) -> Found:
    """The top entry of Y Z^T over that of C, at the printed start and with Z = sigma_1/alpha."""
    return {"start_printed": (alpha * size) ** 2 / size**2, "start_meant": alpha * size * size / alpha / size**2}


@check_arguments
def every_counter_example(seed: Count = 0, bend: float = 0.5) -> Found:
    """The numbers of all counter-examples.

    Args:
        seed: Seed of the random starts. Not negative. Default: 0.
        bend: Half of -p'' at 0. Default: 0.5.
    """
    found = composition(bend) | _second_eigenvalue(seed=seed)
    for function in (
        _literal_manifold,
        _observation_range,
        _missing_scale,
        _largest_singular_values,
        _existence_limit,
        _log_derivative,
        _height_bounds,
        _cube_bound,
        _half_step,
        _missing_square,
        _spectral_condition,
        _remark_start,
    ):
        found |= function()
    return found
