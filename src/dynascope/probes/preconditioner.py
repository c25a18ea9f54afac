"""The geometry of an adaptive optimizer, from its optax state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from dynascope.probes.probe import Snapshot

ADAPTIVE = "optax.adam, adamw, rmsprop or adagrad"


def preconditioner(snapshot: Snapshot, *, eps_in_sqrt: bool = True) -> Float[Array, " n"]:
    """The diagonal P by which the optimizer divides gradients.

    With Adam it is (1 - b1^t) (sqrt(v / (1 - b2^t) + eps_root) + eps), where v is the average of squared gradients; the
    first factor belongs to the average of gradients, whose bias Adam corrects (Cohen et al. 2022, Adaptive gradient
    methods at the edge of stability). Nesterov's variant of Adam has other factors, and a state that looks the same.

    Args:
        snapshot: A snapshot of a descent whose optimizer is made with `optax.inject_hyperparams`, such as
            `optax.inject_hyperparams(optax.adam)(0.01)`: the state then holds the constants, too.
        eps_in_sqrt: The option of that name of `optax.rmsprop`, which the state does not hold.

    Returns:
        P, `(n,)`, in the flat order of the parameters; NaN with Adam before the first step.
    """
    found = optax.tree_utils.tree_get_all_with_path(snapshot.optimizer, "hyperparams")
    constants = next((value for _, value in found), {})
    memory = next((leaf for leaf in jax.tree.leaves(snapshot.optimizer, is_leaf=_is_memory) if _is_memory(leaf)), None)
    if memory is None or "eps" not in constants or hasattr(memory, "nu_max"):
        raise ValueError(
            f"a preconditioned probe needs {ADAPTIVE}, made with optax.inject_hyperparams, such as "
            "optax.inject_hyperparams(optax.adam)(0.01)"
        )
    with jax.numpy_dtype_promotion("standard"):  # of counts and constants, as in optax
        return _diagonal(
            {name: ravel_pytree(part)[0] for name, part in memory._asdict().items()}, constants, eps_in_sqrt
        )


def _is_memory(state: Any) -> bool:
    return bool({"nu", "sum_of_squares"} & set(getattr(state, "_fields", ())))


def _diagonal(memory: Mapping[str, Array], constants: Mapping[str, Array], eps_in_sqrt: bool) -> Array:
    eps = constants["eps"]
    if "sum_of_squares" in memory:
        return jnp.sqrt(memory["sum_of_squares"] + eps)
    if "b1" in constants:
        first, second = (1 - constants[name] ** memory["count"] for name in ("b1", "b2"))
        return first * (jnp.sqrt(memory["nu"] / second + constants["eps_root"]) + eps)
    bias = 1 - constants["decay"] ** memory["count"] if "count" in memory else 1
    squares = memory["nu"] / bias
    if "mu" in memory:  # centered
        squares = squares - (memory["mu"] / bias) ** 2
    return jnp.sqrt(squares + eps) if eps_in_sqrt else jnp.sqrt(squares) + eps
