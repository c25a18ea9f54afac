"""What the valid calls share: small arrays and functions, and which entries of `NONSENSE` make sense for numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds

Calls = dict[str, tuple[dict[str, Any], dict[str, str]]]

REAL, POSITIVE, NOT_NEGATIVE, SHARE = "-1 0 2.5 2**62", "2.5 2**62", "0 2.5 2**62", "0"
NUMBERS, ARRAYS = f"{REAL} nan", "nested shaped"
EVERYTHING = f"{NUMBERS} {ARRAYS} 1j True None foo [] {{}} object empty"
ANY, ABOVE_0, FROM_0 = f"{REAL} {ARRAYS}", f"{POSITIVE} {ARRAYS}", f"{NOT_NEGATIVE} {ARRAYS}"
"""Entry by entry: of any numbers, positive ones, those that are not negative."""

KEY = jax.random.key(0)
X, Y = jnp.linspace(-1, 1, 6).reshape(3, 2), jnp.array([[1.0], [0.0], [-1.0]])
PARAMS, VECTOR = {"w": jnp.array([0.5, -0.3])}, jnp.array([0.6, 0.8])
CURVE, TIMES = np.array([1.0, 0.5, 0.8, 0.1, 0.1, 0.1]), np.arange(6.0)
NODES, PAIRS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([[0, 1], [0, 3]])
FACTORS = jnp.ones((3, 2)), jnp.ones((4, 2))


def loss(params: Any) -> Any:
    return jnp.sum((params["w"] ** 2 - 1) ** 2)


def apply(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"])[None]


def half(state: Any) -> Any:
    return 0.5 * state


def scaled(state: Any, setting: Any) -> Any:
    return setting * state


def pairs(model: Any) -> Any:
    return model["a"], model["b"]


def member(rate: Any) -> ds.Descent:
    return ds.Descent(PARAMS, loss, optax.sgd(rate))
