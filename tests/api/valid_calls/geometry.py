"""Valid calls of geometry."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from valid_calls.shared import (
    ARRAYS,
    FACTORS,
    KEY,
    NOT_NEGATIVE,
    NUMBERS,
    PARAMS,
    POSITIVE,
    REAL,
    VECTOR,
    Calls,
    X,
    Y,
    apply,
    half,
    loss,
)


def first(model: Any) -> Any:
    return model["a"]


def on_rows(params: Any, rows: Any) -> Any:
    return jnp.mean((rows @ params - 1) ** 2)


def calls() -> Calls:
    at = {"loss": loss, "params": PARAMS}
    kernel = {"model": PARAMS, "x": X, "apply": apply}
    search = {"tolerance": NOT_NEGATIVE, "dense": "0 2**62", "seed": "0"}
    rows = {"tolerance": NOT_NEGATIVE, "rows": "2**62", "budget": "2**62", "seed": "0"}
    number = {"tolerance": NOT_NEGATIVE, "groups": "-1 0 2**62"}
    orbit = {"rule": half, "state": jnp.zeros(2)}
    state = {"state": ARRAYS + " " + NUMBERS}
    return {
        "agop": (kernel, {}),
        "agop_factored": (kernel, {}),
        "alignment": ({"one": jnp.eye(2), "other": jnp.eye(2)}, {}),
        "directional_derivatives": (at | {"direction": VECTOR, "order": 2}, {"order": "0"}),
        "discriminant": ({"derivatives": jnp.ones(5)}, {}),
        "flip": (at | {"learning_rate": 0.1}, {"learning_rate": POSITIVE}),
        "line_search_minimum": (at | {"learning_rate": 0.1}, {"learning_rate": REAL, "halvings": "0"}),
        "top_eigenpairs": (at, search),
        "dense_hessian": (at, {}),
        "precondition": (at | {"preconditioner": VECTOR}, {}),
        "hessian_vector_product": (at | {"vector": VECTOR}, {}),
        "sharpness_gradient": (at | {"vector": VECTOR}, {}),
        "critical_rate": (kernel, rows),
        "eigenspace_losses": (kernel | {"y": Y, "splits": (1,)}, rows),
        "kernel_change": (kernel | {"start": PARAMS}, rows),
        "kernel_eigenpairs": (kernel, rows),
        "polyak_ratio": (kernel | {"y": Y}, {}),
        "block_norms": ({"function": loss, "params": PARAMS, "groups": {"w": 0}}, number),
        "hessian_norm": ({"function": loss, "params": PARAMS}, {"tolerance": NOT_NEGATIVE}),
        "linearity_gap": (
            {"function": loss, "params": PARAMS, "radius": 0.1, "key": KEY, "directions": 2},
            {"radius": POSITIVE, "among": "nested"},
        ),
        "gram_imbalance": ({"Y": FACTORS[0], "Z": FACTORS[1]}, {}),
        "imbalance": ({"x": 1.0, "y": 2.0}, {"x": f"{NUMBERS} {ARRAYS}", "y": f"{NUMBERS} {ARRAYS}"}),
        "leading_components": ({"Y": X, "Z": X, "C": jnp.eye(3), "top": jnp.ones(3)}, {}),
        "multiplier": (orbit, state),
        "multipliers": (orbit, {}),
        "norm_ratio": ({"inner": X, "outer": jnp.ones(3)}, {}),
        "residual": (orbit, state),
        "perturbation_singular_values": ({"now": FACTORS, "then": FACTORS}, {}),
        "product_singular_values": ({"a": FACTORS[0], "b": FACTORS[1]}, {}),
        "random_perturbation": ({"key": KEY, "now": FACTORS, "then": FACTORS}, {}),
        "low_rank": ({"matrix": jnp.eye(3), "rank": 1}, {"matrix": ARRAYS, "rank": "0"}),
        "truncate": ({"model": {"a": jnp.eye(3)}, "where": first, "rank": 1}, {"rank": "0"}),
        "gradient_noise": ({"loss": on_rows, "params": jnp.ones(2), "data": X}, {"rows": ""}),
        "batch_sharpness": (
            {"loss": on_rows, "params": jnp.ones(2), "data": X, "batch": 2, "key": KEY, "draws": 2},
            {"batch": "", "draws": ""},
        ),
        "linear_cka": ({"x": X, "y": X}, {"x": "shaped", "y": "shaped"}),
        "spectral_density": (at | {"key": KEY, "draws": 2, "degree": 2}, {}),
        "kernel_product": (kernel, rows),
        "tangent_kernel": (kernel, rows),
    }
