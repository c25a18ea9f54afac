"""What the experiments on matrix factorization share: the moving factors, their starts, and who gets away.

A problem is given by the products η σ_i² alone: (Y, Z, C, η) → (cY, cZ, c²C, η/c²) maps trajectories to trajectories,
so C is diagonal and the rate is 1 unless an experiment wants the document's own numbers.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

import dynascope as ds
from dynascope import geometry
from dynascope.probes.probe import Probe, probe
from dynascope.tasks.factorization import Factorization, Factors
from dynascope.theory.edge.factorization import gram_difference_change


def generic(random: np.random.Generator, count: int, dim: int, scale: Any) -> Factors:
    """`count` pairs of d x d factors with independent N(0, scale²) entries; `scale` may be one for each."""
    sizes = np.broadcast_to(np.asarray(scale, float), count)[:, None, None]
    return {name: jnp.asarray(sizes * random.standard_normal((count, dim, dim))) for name in ("Y", "Z")}


def quasi_symmetric(random: np.random.Generator, roots: np.ndarray, alpha: float, noise: Any) -> Factors:
    """(α X0, X0/α) plus N(0, noise²) entries, for a stack of roots X0."""
    stray = generic(random, len(roots), roots.shape[-1], noise)
    return {"Y": stray["Y"] + alpha * roots, "Z": stray["Z"] + roots / alpha}


def descend_diagonal(factors: Factors, products: Array) -> Factors:
    """One step at rate 1 on C = diag(η σ_i²)."""
    return Factorization(jnp.diag(products)).step(factors, 1.0)


class Descending(eqx.Module):
    """An ensemble member: gradient descent on ||Y Zᵀ - C||²/2 with its leading components, looked at at every record;
    the factors themselves only at the end."""

    steps: int = eqx.field(static=True)

    def __call__(self, case: dict[str, Array]) -> ds.Map:
        task, rate = Factorization(case["target"]), case["rate"]

        def lead(factors: Factors) -> dict[str, Array]:
            return geometry.leading_components(factors["Y"], factors["Z"], task.target, case["top"])

        def drift(factors: Factors) -> Array:
            """How far a step's change of YᵀY - ZᵀZ is from the exact formula, in units of |C|."""
            change = _gram_difference(task.step(factors, rate)) - _gram_difference(factors)
            missed = change - gram_difference_change(factors, task.target, rate)
            return jnp.max(jnp.abs(missed)) / jnp.linalg.norm(task.target)

        def factor(name: str) -> Probe:
            return probe(lambda snapshot: snapshot.model[name], ("row", "column"), every=[self.steps])

        return ds.Map(
            lambda factors: task.step(factors, rate),
            {"Y": case["Y"], "Z": case["Z"]},
            probes={"lead": lead, "error": task, "drift": drift, "Y": factor("Y"), "Z": factor("Z")},
        )


def descend(cases: dict[str, np.ndarray], steps: int) -> xr.Dataset:
    """Every case (`Y`, `Z`, `target`, `top`, `rate`, each with a first axis): its first 256 steps and its last 64."""
    looks = np.union1d(np.arange(min(257, steps + 1)), np.arange(max(0, steps - 63), steps + 1))
    return ds.ensemble(Descending(steps), {"case": cases}, steps=steps, record=looks)


def _gram_difference(factors: Factors) -> Array:
    Y, Z = factors["Y"], factors["Z"]
    return jnp.matmul(Y.T, Y, precision="highest") - jnp.matmul(Z.T, Z, precision="highest")
