"""Checks on grids of the proof of Theorem 3.3: the orbit in closed form, and three inequalities."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from dynascope.geometry.orbits import advance
from dynascope.theory.edge import quartic_orbit


def closed_form_errors() -> dict[str, float]:
    """The largest errors of closed forms, for two mu and K up to 1.5: by which two points of the orbit miss each other,
    of the multiplier 9 - 2 (1 + K)^2, and of (3.4)."""
    K, errors = np.linspace(1.001, 1.5, 500), []
    for mu in (1.0, 2.5):
        low, high = quartic_orbit.orbit(mu, K / mu)
        there, back = (x - K / mu * (x**2 - mu) * x for x in (low, high))
        slopes = (1 - K / mu * (3 * low**2 - mu)) * (1 - K / mu * (3 * high**2 - mu))
        implicit = [quartic_orbit.implicit_rate(mu, d) * mu - K for d in (low, high)]
        gaps = ([there - high, back - low], [slopes - quartic_orbit.multiplier(K)], implicit)
        errors.append([np.abs(np.asarray(gap)).max() for gap in gaps])
    residual, multiplier, implicit = (float(error) for error in np.max(errors, axis=0))
    return {"closed_residual": residual, "closed_multiplier": multiplier, "closed_implicit": implicit}


def proof_margins() -> dict[str, float]:
    """The least values, up to K = sqrt(4.5) - 1, of the numbers that the proof needs to be positive: F(F(x)) - x on
    [x_s, d1), x - F(F(x)) on (d1, sqrt(mu)), d1 less its bound (B.18), and the left side of (B.20) less 1."""
    K = np.linspace(1.0, quartic_orbit.SUPERSTABLE, 102)[1:-1]
    low, critical = quartic_orbit.normalized_orbit(K).low, quartic_orbit.critical_point(1.0, K)
    share = jnp.linspace(0.001, 0.999, 50)[:, None]

    def forward(x: jnp.ndarray) -> jnp.ndarray:
        return advance(lambda y: quartic_orbit.step(y, K), x, 2) - x

    return {
        "rises": float(forward(critical + share * (low - critical)).min()),
        "falls": float(-forward(low + share * (1 - low)).max()),
        "bound": float(low.min() - quartic_orbit.lower_bound(1.0)),
        "invariance": float(quartic_orbit.invariance(K).min() - 1),
    }
