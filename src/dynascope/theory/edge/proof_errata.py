"""Steps in the proofs of Appendix B of "Simple structures in neural networks" that do not hold as printed.

The theorems that rest on them stand. See `errata` for statements that fall, and for the form of an erratum.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dynascope.tasks.scalar_losses import BASE_MODELS, derivatives
from dynascope.tasks.single_neuron import reduced_step
from dynascope.theory.edge.factorization import quasi_symmetric_limit
from dynascope.theory.edge.factorization_stability import eigenvalues_at_minimum
from dynascope.theory.edge.neuron_intervals import Box, propagate
from dynascope.theory.erratum import Erratum, Evidence

I8 = Box(0.55, 0.8, -0.162, 0.068, 0.416)
"""A box of Appendix B.9."""
RATIOS, ARGUMENTS = np.geomspace(0.05, 10, 61), np.geomspace(0.05, 50, 41)
"""m and x at which (B.100) is tested."""
Numbers = Float[np.ndarray, "..."] | float


def log_derivative(x: float = 0.7) -> Evidence:
    """The third derivative of log is +2/x^3."""
    third = float(derivatives(BASE_MODELS["log"].function, x, 3)[3])
    return Evidence({"third derivative": third, "2/x^3": 2 / x**3}, third > 0)


def height_enclosure() -> Evidence:
    """A state inside the box of I8 whose next wy lies outside the printed interval, and inside the valid one."""
    mean = math.sqrt(I8.product_low + I8.gap_low**2 / 4)
    v, wx = mean + I8.gap_low / 2, mean - I8.gap_low / 2
    state = {"v": jnp.asarray(v), "wx": jnp.asarray(wx), "wy": jnp.asarray(I8.height)}
    reached = float(reduced_step(state, 1.0)["wy"])
    printed, valid = propagate(I8, "printed").height, propagate(I8, "valid").height
    return Evidence({"wy": reached, "printed bound": printed, "valid bound": valid}, printed < reached <= valid)


def angle_ratio(m: Numbers, x: Numbers) -> Float[np.ndarray, " ..."]:
    """(arctan mx - mx/(1 + m^2 x^2)) / (arctan x - x/(1 + x^2)), which (B.100) bounds by m^3."""
    return np.asarray(_segment(m * x) / _segment(x))


def _segment(x: Numbers) -> Numbers:
    return np.arctan(x) - x / (1 + x**2)


def cube_bound() -> Evidence:
    """The ratio is at most m^3 for m >= 1 and larger for m < 1."""
    over_cube = angle_ratio(RATIOS[:, None], ARGUMENTS) / RATIOS[:, None] ** 3
    above, below = over_cube[RATIOS >= 1].max(), over_cube[RATIOS < 0.999].min()
    tenth = float(np.max(angle_ratio(0.1, ARGUMENTS) / 1e-3))
    numbers = {"largest ratio to m³, m ≥ 1": above, "least, m < 1": below, "largest at m = 0.1": tenth}
    return Evidence(numbers, bool(above <= 1 + 1e-9 and below > 1 and tenth > 100))


def half_step() -> Evidence:
    """1 - eta (mu - x) is 1/2 at x = mu - 1/(2 eta) and 3/2 at x = mu + 1/(2 eta)."""
    printed, right = 1 - 0.5, 1 + 0.5
    return Evidence({"with μ - 1/(2η), as printed": printed, "with μ + 1/(2η)": right}, printed != 1.5 == right)


def missing_square() -> Evidence:
    """The bound on the growth of v wx at wy = 0.1, without the square and with it."""
    bracket, last = 2 - 0.181 - float(_segment(2 - math.sqrt(3))) / math.pi, 1.1 * 0.1**2
    printed, squared = bracket - last, bracket**2 - last
    return Evidence({"as printed": printed, "squared": squared}, printed < 3.28 <= squared)


def spectral_condition(alpha: float = 1.4, K: float = 1.02, bulk: float = 0.3) -> Evidence:
    """The eigenvalue satisfies the printed condition and yet is below -1."""
    eigenvalue = float(eigenvalues_at_minimum(K, bulk, alpha)[3])
    return Evidence({"α": alpha, "K": K, "η σp²": bulk, "eigenvalue": eigenvalue}, eigenvalue < -1)


def remark_start(alpha: float = 0.8, size: float = 2.0) -> Evidence:
    """The top entry of Y Z^T at the two starts, for sigma_1 = 2, and that of Y on the orbit."""
    printed, right = (alpha * size) ** 2, alpha * size * size / alpha
    orbit = float(quasi_symmetric_limit(jnp.diag(jnp.asarray([size, 1.0])), alpha, 1.02 / size**2)[0]["Y"][0, 0])
    numbers = {"Y Zᵀ, as printed": printed, "with σ1/α": right, "C": size**2, "Y on the orbit, σ1 = 2": orbit}
    return Evidence(numbers, abs(right - size**2) < 1e-12 < abs(printed - size**2) and orbit > 1.2)


PROOF_ERRATA: tuple[Erratum, ...] = (
    Erratum(
        "log-derivative",
        "Corollary 7",
        "the third derivative of log x is -2/x^3",
        "it is 2/x^3 (the corollary holds)",
        log_derivative,
    ),
    Erratum(
        "height-enclosure",
        "(B.90), intervals of Appendix B.9",
        "wy is at most 0.214 after the box I8",
        "at most 0.285: the bound needs the inverse ratio (Theorem 3.5 itself stands every test)",
        height_enclosure,
    ),
    Erratum(
        "cube-bound",
        "(B.100)",
        "(arctan mx - mx/(1 + m^2 x^2))/(arctan x - x/(1 + x^2)) <= m^3 for every m > 0",
        "it is for m >= 1, where it is used; for m < 1 the inequality is reversed",
        cube_bound,
    ),
    Erratum(
        "half-step",
        "(B.41)",
        "1 - eta (mu - (mu - 1/(2 eta))) = 3/2",
        "that is 1/2; the bound above it is mu + 1/(2 eta), which gives 3/2",
        half_step,
    ),
    Erratum(
        "missing-square",
        "(B.125), (B.126)",
        "v wx grows by 1 - 0.181 + 1 - ... - 1.1 wy^2 >= 3.28",
        "the bracket before wy^2 is squared",
        missing_square,
    ),
    Erratum(
        "spectral-condition",
        "Appendix B.10.2",
        "1 - eta sigma_1^2 alpha^2 - eta sigma_p^2/alpha^2 < 2 keeps this eigenvalue within 1",
        "this always holds; the condition is eta (sigma_1^2 alpha^2 + sigma_p^2/alpha^2) < 2",
        spectral_condition,
    ),
    Erratum(
        "remark-start",
        "Remark 4, Appendix B.10.2",
        "both Y and Z begin with alpha sigma_1, and Y ends with rho_i",
        "Z begins with sigma_1/alpha (or Y Z^T is not near C), and Y ends with sigma_1 rho_i",
        remark_start,
    ),
)
