"""Spectra of products of weights, and of how far they have moved, inside the loop."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from dynascope import checks
from dynascope.geometry.spectra import Pair, perturbation_singular_values, product_singular_values, random_perturbation
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Probe, Snapshot, Value, probe

Pairs = Callable[[PyTree], Pair]
"""From a model to factors A and B, with any axes before the last two (layers, heads)."""

HEADS = ("product", "layer", "head", "singular")
"""Dimensions of the spectra of a transformer's `products()`."""
PRODUCTS = ("key-query", "value-output")


def product_spectrum(pairs: Pairs, *, every: Every = None, dims: tuple[str, ...] = HEADS) -> Probe:
    """The singular values of products A Bᵀ of weights.

    Args:
        pairs: From a model to A `(..., d, k)` and B `(..., e, k)`, such as `lambda model: model.products()`.
        every: The cadence, in steps; see `Probe`.
        dims: Names of the axes before the last two, and of the singular values.

    Returns:
        A probe with the dimensions `dims`.
    """
    checks.function("pairs", pairs, "pairs(model)")
    return describe_probe(
        probe(
            lambda snapshot: product_singular_values(*_pair(pairs, snapshot)), dims, coords=_coords(dims), every=every
        ),
        "product_spectrum",
    )


def perturbation_spectrum(
    pairs: Pairs,
    *,
    every: Every = None,
    dims: tuple[str, ...] = HEADS,
    null: PRNGKeyArray | None = None,
    noisy: bool | Bool[Array, ""] = True,
) -> Probe:
    """The singular values of the change of products A Bᵀ since the start of the run (NaN at the start).

    Args:
        pairs: From a model to A `(..., d, k)` and B `(..., e, k)`, such as `lambda model: model.products()`.
        every: The cadence, in steps; see `Probe`.
        dims: Names of the axes before the last two, and of the 2k singular values.
        null: A key; if given, every factor's change is replaced by noise of the same Frobenius norm, as a null
            hypothesis.
        noisy: Whether to replace the changes by noise; may be traced.

    Returns:
        A probe with the dimensions `dims`.
    """
    checks.function("pairs", pairs, "pairs(model)")
    if null is not None:
        checks.key("null", null)
    if not isinstance(noisy, jax.Array):
        checks.one_of("noisy", noisy, (True, False))

    def measure(snapshot: Snapshot, start: Pair) -> tuple[Value, Pair]:
        now = _pair(pairs, snapshot)
        if null is not None:
            noise = random_perturbation(null, now, start)
            now = (jnp.where(noisy, noise[0], now[0]), jnp.where(noisy, noise[1], now[1]))
        return perturbation_singular_values(now, start), start

    return describe_probe(
        Probe(measure, dims, _coords(dims), every, initial_state=lambda snapshot: _pair(pairs, snapshot)),
        "perturbation_spectrum",
    )


def _pair(pairs: Pairs, snapshot: Snapshot) -> Pair:
    """The factors, in float32 at least."""
    given = pairs(snapshot.model)
    shapes = [jnp.shape(factor) for factor in given]
    if len(shapes) != 2 or min(map(len, shapes)) < 2 or shapes[0][-1] != shapes[1][-1]:
        raise ValueError(f"pairs must give factors A (..., d, k) and B (..., e, k) with one k; got shapes {shapes}")
    a, b = (factor.astype(jnp.float32) if jnp.finfo(factor.dtype).bits < 32 else factor for factor in given)
    return a, b


def _coords(dims: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {"product": PRODUCTS} if isinstance(dims, tuple | list) and "product" in dims else {}
