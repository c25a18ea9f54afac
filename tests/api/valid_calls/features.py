"""Valid calls of the theory of feature learning."""

from __future__ import annotations

import jax.numpy as jnp

from valid_calls.shared import Calls


def calls() -> Calls:
    return {
        "agop.isotropic_alignment": ({"target": jnp.eye(2)}, {}),
        "parameterizations.width_exponents": ({"parameterization": "mup", "depth": 3}, {}),
        "agop.expected_at_start": ({"dim": 2}, {}),
        "agop.relu_input_gradient": (
            {"weights": [jnp.ones((3, 2)), jnp.ones((1, 3))], "scales": [1.0, 1.0], "x": jnp.ones(2)},
            {},
        ),
    }
