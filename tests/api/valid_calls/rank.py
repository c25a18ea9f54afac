"""Valid calls of the theory of gradual rank increase."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from dynascope.tasks import QuadraticLoss
from dynascope.theory.rank import diagonal_flow, greedy_ranks
from valid_calls.shared import ABOVE_0, ANY, NOT_NEGATIVE, POSITIVE, REAL, Calls

LOSS = QuadraticLoss(jnp.eye(2), jnp.array([1.0, 0.5]))
U, V = jnp.array([1.0, 1.0]), jnp.array([0.5, -0.5])
POINT = diagonal_flow.Reduced(jnp.zeros(2), jnp.ones(2))


def calls() -> Calls:
    stages = greedy_ranks.greedy_stages(LOSS, 2)
    start = {"u": U, "v": V}
    free = {"u": ANY, "v": ANY, "log_scale": ANY, "pace": ABOVE_0, "tolerance": POSITIVE, "beta": "", "kappa": ""}
    at = {"loss": LOSS, "beta": jnp.array([0.9, 0.4])}
    staged = {"until": "2.5 0 -1 2**62"}
    signs = jnp.array([1.0, 1.0])
    return {
        "diagonal_flow.log_inverse": ({"scale": 0.1}, {}),
        "diagonal_flow.reduce_weights": (start, free),
        "diagonal_flow.product": ({"point": POINT}, {}),
        "diagonal_flow.weights": ({"point": POINT}, {}),
        "diagonal_flow.log_weight": ({"point": POINT, "pace": 2.0}, free),
        "diagonal_flow.conserved_quantity": (start, free),
        "diagonal_flow.conservation_residual": (start | {"kappa": jnp.full(2, 0.75)}, {}),
        "diagonal_flow.force": (at, {}),
        "diagonal_flow.head_force": ({"x": jnp.ones((1, 3, 2)), "y": jnp.ones((1, 3, 2)), "beta": jnp.ones(4)}, {}),
        "diagonal_flow.reduced_process": ({"loss": LOSS, "start": POINT, "pace": 2.0}, free | {"pace": POSITIVE}),
        "diagonal_flow.reduced_flow": (
            start | {"loss": LOSS, "scales": (0.1, 0.01), "times": np.linspace(0, 1, 3)},
            {"tolerance": POSITIVE},
        ),
        "diagonal_flow.plain_flow": (start | {"loss": LOSS, "times": jnp.array([0.0, 0.5])}, {"tolerance": POSITIVE}),
        "diagonal_flow.check_start": (start, {}),
        "stage_transition.transition": (at | {"signs": signs}, {"tolerance": POSITIVE}),
        "stage_transition.hessian": (at, {}),
        "stage_transition.least_curvature": (at, {}),
        "stage_transition.constrained_least_squares": (
            {"S": np.eye(2), "c": np.array([1.0, 0.5]), "signs": np.array([1.0, 1.0])},
            {},
        ),
        "greedy_ranks.waiting_times": (
            {"log_weight": np.ones(2), "push": np.array([1.0, -0.5]), "racing": np.array([True, True])},
            {"smallest": NOT_NEGATIVE},
        ),
        "greedy_ranks.greedy_stages": (
            {"loss": LOSS, "size": 2},
            staged | {"until": POSITIVE, "seed": POSITIVE, "tolerance": POSITIVE, "start": "0"},
        ),
        "greedy_ranks.resolved_plateaus": ({"stages": stages, "scale": 1e-9, "until": 3.0}, staged),
        "greedy_ranks.first_arrival": (
            {"push": 1.0, "u": 1.0, "v": 0.5, "scale": 0.1, "size": 0.5},
            {"push": REAL.replace(" 0", ""), "u": REAL, "v": REAL, "size": POSITIVE},
        ),
        "greedy_ranks.staircase": ({"stages": stages, "times": np.linspace(0, 2, 3)}, {}),
        "greedy_ranks.table": ({"stages": stages}, {}),
        "assumptions.non_degeneracy": (
            {"stages": stages} | {name: np.asarray(each) for name, each in start.items()},
            {},
        ),
        "assumptions.strict_minimum": ({"loss": LOSS, "stage": stages[-1]}, {}),
        "assumptions.grows_quadratically": (
            {"loss": LOSS, "beta": np.array([1.0, 0.5]), "c": 0.1},
            {"c": POSITIVE, "distance": POSITIVE},
        ),
        "assumptions.noise_robust": (
            {"loss": LOSS, "before": stages[0], "after": stages[1], "draws": 2},
            {"distance": POSITIVE, "seed": "0"},
        ),
        "assumptions.plateau_bound": (
            {"inactive": 0.1, "lipschitz": 1.0, "curvature": 1.0},
            {"inactive": NOT_NEGATIVE, "lipschitz": NOT_NEGATIVE, "curvature": POSITIVE},
        ),
        "assumptions.log_scale_lemmas": (
            {"u": np.ones(2), "v": np.zeros(2), "b": np.ones(2), "scale": 0.1, "margin": 0.1},
            {"margin": POSITIVE},
        ),
    }
