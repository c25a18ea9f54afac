"""Valid calls of the probes."""

from __future__ import annotations

import jax.numpy as jnp

from valid_calls.shared import ARRAYS, NOT_NEGATIVE, NUMBERS, POSITIVE, Calls, X, Y, apply, loss, pairs


def calls() -> Calls:
    every = {"every": "2**62"}
    search = every | {"tolerance": NOT_NEGATIVE, "k": "2**62", "rows": "2**62"}
    dims = every | {"dims": "[] {}"}
    return {
        "Probe": ({"measure": apply}, dims | {"coords": "{}"}),
        "probe": ({"function": loss}, dims | {"coords": "{}"}),
        "agop_alignment": ({"target": jnp.eye(2), "x": X}, every | {"x": ARRAYS}),
        "displacement": ({}, every),
        "jacobian": ({"point": X[0]}, every),
        "loss": ({}, every),
        "output": ({"point": X[0]}, every | {"point": f"{NUMBERS} {ARRAYS}"}),
        "outputs": ({"points": X}, every | {"points": ARRAYS}),
        "flip_discriminant": ({"learning_rate": 0.1}, every | {"learning_rate": POSITIVE}),
        "gradient_alignment": ({}, search),
        "hessian_density": ({"at": X[0], "width": 0.1}, every | {"width": POSITIVE, "seed": "0"}),
        "output_hessian_norm": ({"function": loss}, search),
        "preconditioned_sharpness": ({}, search),
        "sharpness": ({}, search),
        "top_eigenvalues": ({"k": 1}, search),
        "batch_critical_rate": ({}, every),
        "kernel_distance": ({"x": X}, search | {"x": "shaped"}),
        "kernel_norm": ({"x": X, "y": Y}, search),
        "batch_rows": ({}, every),
        "learning_rate": ({}, every),
        "polyak": ({"x": X}, every | {"x": "shaped"}),
        "perturbation_spectrum": ({"pairs": pairs}, dims | {"noisy": "True"}),
        "truncations": (
            {"weights": {"a": pairs}, "ranks": (0, 1), "measure": loss},
            dims | {"dims": "[]"},
        ),
        "gradient_noise": ({}, every | {"rows": "2**62"}),
        "batch_sharpness": ({"batch": 2}, every | {"batch": "2**62", "draws": "2**62", "seed": "0"}),
        "weight_ranks": ({}, every | {"change": "True"}),
        "cka": ({"features": loss}, every),
        "product_spectrum": ({"pairs": pairs}, dims),
    }
