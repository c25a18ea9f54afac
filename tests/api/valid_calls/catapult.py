"""Valid calls of the theory of catapults."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from dynascope.theory.catapult.quadratic_model import Normalized, State
from valid_calls.shared import ABOVE_0, ANY, FROM_0, POSITIVE, Calls

K, R, J = jnp.eye(2), jnp.array([1.0, -0.5]), jnp.ones((2, 3))
ONE, STATE, NORMALIZED = jnp.asarray(1.0), State(jnp.asarray(0.1), jnp.asarray(2.0)), Normalized(*jnp.ones(3))
POSITIVE_NAMES = ("rate", "width", "dim", "squared_norm", "high", "margin", "height", "reach")


def calls() -> Calls:
    each = dict.fromkeys(POSITIVE_NAMES, ABOVE_0)
    each |= dict.fromkeys(("label", "excess", "start", "v", "gamma", "eigenvalues", "loss", "residual", "labels"), ANY)
    each |= dict.fromkeys(
        ("curvature", "label_size", "peak", "low", "kernel", "squared_gradient", "smoothness"), FROM_0
    )
    each |= {"top": FROM_0, "convention": "", "steps": "0"}
    one = {"rate": 0.5, "label": 1.0, "curvature": 0.1}
    linear = {"kernel": K, "residual": R, "rate": 0.5, "convention": "sum"}
    only = {"rate": POSITIVE, "width": POSITIVE}
    found: dict[str, Any] = {
        "critical_rates.critical_rate": ({"top": 2.0, "count": 3, "convention": "mse"}, each),
        "critical_rates.largest_rate": ({"top": 2.0, "count": 3, "convention": "mse"}, each | {"reach": POSITIVE}),
        "critical_rates.convert": ({"rate": 0.5, "count": 3, "convention": "mse", "to": "sum"}, each),
        "critical_rates.multipliers": ({"eigenvalues": R, "rate": 0.5, "count": 3, "convention": "mse"}, each),
        "critical_rates.unstable_count": (
            {"eigenvalues": R, "rate": 0.5, "count": 3, "convention": "mse"},
            only | {"eigenvalues": "nested shaped"},
        ),
        "critical_rates.linear_residual": (linear | {"steps": jnp.arange(3)}, only),
        "critical_rates.hessian_split": ({"jacobian": J, "hessians": jnp.ones((2, 3, 3)), "residual": R}, {}),
        "critical_rates.descent_bound": (
            {"loss": 1.0, "squared_gradient": 1.0, "rate": 0.5, "smoothness": 1.0},
            each | {"loss": FROM_0},
        ),
        "critical_rates.beyond_linear": (linear | {"after": R}, only),
        "critical_rates.batch_critical_rate": ({"kernel": K, "rows": jnp.array([0, 1])}, {}),
        "critical_rates.can_rise": ({"kernel": K, "rows": jnp.array([0, 1]), "rate": 0.5}, only),
        "quadratic_model.curvature": ({"squared_norm": 1.0, "width": 9.0}, each),
        "quadratic_model.multiplier": ({"state": NORMALIZED}, {}),
        "quadratic_model.normalized_step": ({"state": NORMALIZED}, {}),
        "quadratic_model.normalized_path": ({"state": NORMALIZED, "steps": 2}, each),
        "quadratic_model.stays_bounded": ({"state": NORMALIZED, "steps": 9}, each | {"bound": POSITIVE}),
        "quadratic_model.peak_loss": ({"peak": 1.0, "rate": 0.5, "curvature": 0.1}, each | {"curvature": ABOVE_0}),
        "quadratic_model.small_catapult": ({"excess": 0.1, "start": 1e-3}, {"excess": ABOVE_0, "start": ABOVE_0}),
        "quadratic_model.falling_threshold": ({"v": 3.0, "label_size": 1.0, "width": 9.0}, each),
        "quadratic_model.growth_phase": (
            {"excess": 0.1, "label_size": 1.0, "height": 1.0, "start": 1.0, "margin": 1.0},
            each | {"excess": ABOVE_0, "start": ABOVE_0},
        ),
        "quadratic_model.fixed_points": (one, each | {"curvature": ABOVE_0}),
        "quadratic_model.jacobian": (
            one | {"state": STATE},
            {"rate": POSITIVE, "label": "-1 0 2.5 2**62", "curvature": "0 2.5 2**62"},
        ),
        "quadratic_model.initial_kernel": ({"squared_norm": 1.0, "dim": 3}, each),
        "general_quadratic.jacobian_change": ({"jacobian": J, "hessians": jnp.ones((2, 3, 3)), "residual": R}, {}),
        "general_quadratic.remainders": ({"jacobian": J, "change": J, "rate": 0.5}, only),
        "general_quadratic.step": ({"residual": R, "jacobian": J, "hessians": jnp.ones((2, 3, 3)), "rate": 0.5}, only),
        "general_quadratic.top_direction": (
            {"residual": R, "after": R, "kernel": K, "kernel_after": K, "rate": 0.5},
            only,
        ),
        "general_quadratic.pure_step": ({"state": STATE, "rate": 0.5, "gamma": 0.1, "squared_norm": 1.0}, each),
        "quadratic_many.directions": ({"x": R}, {}),
        "quadratic_many.kernel_eigenvalues": ({"x": R, "first": R, "second": R, "gates": R}, {}),
        "quadratic_many.kernel": ({"eigenvalues": R, "x": R}, {}),
        "quadratic_many.components": ({"vector": R, "x": R}, {}),
        "quadratic_many.curvatures": ({"x": R, "width": 9.0}, only),
        "quadratic_many.step": (
            {"state": State(R, jnp.ones(2)), "rate": 0.5, "labels": R, "curvatures": jnp.ones(2)},
            only,
        ),
        "quadratic_many.matrix_step": (
            {"residual": R, "kernel": K, "labels": R, "x": R, "rate": 0.5, "width": 9.0},
            only,
        ),
        "quadratic_many.constant_loss": ({"residual": R, "x": R}, {}),
        "quadratic_many.initial_top": ({"x": R}, {}),
        "largest_rate.bisect_rate": ({"holds": below_2, "low": 1.0, "high": 3.0}, each),
        "largest_rate.largest_convergent": (
            {"residual": 0.1, "kernel": 1.0, "label": 1.0, "curvature": 1e-3, "steps": 9},
            each | {"kernel": ABOVE_0},
        ),
    }
    found["quadratic_model.path"] = one | {"state": STATE, "steps": 2}, each
    for name in ("step", "normalize", "monotone_change"):
        found[f"quadratic_model.{name}"] = one | {"state": STATE}, each
    return found


def below_2(rates: Any) -> Any:
    return rates < 2
