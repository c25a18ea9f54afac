"""The starts and settings behind the published theory figures (5, 8, 9, 10), as data, and their runs.

The code published with "Dynamics of Concept Learning and Compositional Generalization" iterates its recursion (D.2)
with `A` squared wherever the text has `A`. Both are run here from the same starts. Paper clock, step 0.01.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.theory.concept.jacobian_paths import factor_path, jacobian_euler_path
from dynascope.theory.concept.jacobian_recursion import jacobian_of
from dynascope.theory.concept.linear_loss import out_of_distribution_loss
from dynascope.theory.domains import PositiveNumber, check_arguments

U5 = ((0.124614, 0.126369, 0.197760), (0.015675, 0.007716, 0.100468), (0.060387, 0.196722, 0.023272))
U3 = ((0.030383, 0.086447, 0.092016), (0.013997, 0.056144, 0.085024), (0.096610, 0.076160, 0.089636))
U4 = (
    (0.030383, 0.086447, 0.092016, 0.013997),
    (0.056144, 0.085024, 0.096610, 0.076160),
    (0.089636, 0.097888, 0.028008, 0.075974),
    (0.040007, 0.012171, 0.026023, 0.040253),
)

Integrator = Literal["jacobian_euler", "factor_gd"]
"""The recursion on `W`, or gradient descent on `U`."""


class PublishedFigure(NamedTuple):
    """One theory figure: its data, its start, and its number of steps."""

    name: str
    """The figure, and the origin of its setting."""
    mu: tuple[float, ...]
    """Signals along every axis."""
    sigma: tuple[float, ...]
    """Spreads along every axis."""
    concepts: int
    """Number of concepts s."""
    start: tuple[tuple[float, ...], ...]
    """Rows of the factor `U(0)`."""
    steps: int
    """Number of steps."""
    rises_printed: int
    """The number of times that the test loss rises on its way down with `A`, the equation as printed."""
    rises_coded: int
    """The same with `A` squared, the equation as coded."""
    eta: float = 0.01
    """Step in the paper clock."""

    @property
    def a(self) -> Float[np.ndarray, " d"]:
        """`a_p = mu_p^2 / s + sigma_p^2`."""
        return np.asarray(self.mu) ** 2 / self.concepts + np.asarray(self.sigma) ** 2


PUBLISHED_FIGURES = (
    PublishedFigure("5", (1.0, 1.5, 0.0), (0.05,) * 3, 2, U5, 2_000, 1, 1),
    PublishedFigure("8, code's setting", (1.0, 1.7, 2.25), (0.5, 0.25, 0.25), 3, U3, 10_000, 1, 2),
    PublishedFigure("8, caption's setting", (1.0, 1.5, 2.2), (0.05,) * 3, 3, U3, 10_000, 2, 2),
    PublishedFigure("9, code's setting", (1.0, 1.5, 2.2, 2.7), (0.05,) * 4, 4, U4, 10_000, 2, 3),
    PublishedFigure("9, caption's setting", (1.0, 1.5, 2.2, 2.7), (0.05, 0.05, 0.05, 0.5), 4, U4, 10_000, 2, 3),
    PublishedFigure("10", (0.7, 1.7, 3.0), (0.05,) * 3, 3, U3, 10_000, 2, 2),
)


@check_arguments
def run_published_figure(figure: PublishedFigure, power: PositiveNumber, integrator: Integrator) -> xr.Dataset:
    """The `W(step, row, column)` and `test_loss(step)` behind a published figure, in the default precision.

    Args:
        figure: One of `PUBLISHED_FIGURES`.
        power: Power of `A`: 1 as printed, 2 as coded. Positive.
        integrator: The recursion on `W` or gradient descent on `U`.
    """
    a = jnp.asarray(figure.a**power)
    U0 = jnp.asarray(figure.start, dtype=a.dtype)
    if integrator == "factor_gd":
        W = factor_path(U0, a, figure.eta, figure.steps)
    else:
        W = jacobian_euler_path(jacobian_of(U0), a, figure.eta, figure.steps)
    loss = out_of_distribution_loss(W, jnp.asarray(figure.mu, dtype=a.dtype))
    return xr.Dataset({"W": (("step", "row", "column"), np.asarray(W)), "test_loss": ("step", np.asarray(loss))})
