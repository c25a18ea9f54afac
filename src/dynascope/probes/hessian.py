"""Curvature inside the loop: sharpness, alignment, the discriminant of the flip, the spectrum; each with its error."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dynascope.geometry.directional import flip
from dynascope.geometry.eigenpairs import Eigenpairs, diagonalized, searched
from dynascope.geometry.hessian import flatten, linearized
from dynascope.geometry.ritz import Which
from dynascope.geometry.spectral_density import spectral_density
from dynascope.probes.probe import Dims, Every, Probe, Snapshot, probe

SMALL = 32
"""Up to so many parameters it is as cheap to diagonalize the whole Hessian at every look."""


def sharpness(
    every: Every = None, tolerance: float = 1e-3, *, which: Which = "largest", max_products: int = 100
) -> Probe:
    """The largest eigenvalue of the Hessian, and how the gradient lies to its eigenvector.

    In the trace, for a probe called `sharpness`: `sharpness`; `sharpness_residual`, within which there is an
    eigenvalue; `sharpness_error`, an estimate of the error that is usually much smaller; `sharpness_alignment`,
    |g.u| / |g|, and `sharpness_angle`, within which the eigenvector is known (the error of the alignment);
    `sharpness_products` used. `tolerance` is on the relative error of the eigenvalue. Each look starts from the
    vectors of the last one, and takes as many products as the residual asks for.
    """
    return _followed(1, every, tolerance, which, max_products, False)


def top_eigenvalues(
    k: int, every: Every = None, tolerance: float = 1e-3, *, which: Which = "largest", max_products: int = 200
) -> Probe:
    """The k largest eigenvalues of the Hessian, largest first, along the dimension `index`; else as `sharpness`."""
    return _followed(k, every, tolerance, which, max_products, True)


def gradient_alignment(every: Every = None, tolerance: float = 1e-5) -> Probe:
    """|g.u| / |g|, with u the top eigenvector of the Hessian; entries `angle` (its error) and `sharpness` come along.

    Where the sharpness is recorded anyway, its probe gives the same without a second search.
    """
    both = sharpness(every, tolerance)

    def measure(snapshot: Snapshot, memory: Any) -> tuple[Any, Any]:
        found, memory = both.measure(snapshot, memory)
        return {"value": found["alignment"], "angle": found["angle"], "sharpness": found["value"]}, memory

    return Probe(measure, every=every, remember=both.remember)


def flip_discriminant(learning_rate: Float[Array, ""] | float, every: Every = None) -> Probe:
    """D = 3 f3^2 - f2 f4 along the unit gradient, at the minimum of the line of the gradient step.

    Entries: `second`, `third`, `fourth`, the derivatives there; `fraction`, the part of the step at which it lies.
    """

    def measure(snapshot: Snapshot) -> dict[str, Any]:
        found = flip(snapshot.loss, snapshot.model, learning_rate)
        _, _, second, third, fourth = found.derivatives
        return {
            "value": found.discriminant,
            "second": second,
            "third": third,
            "fourth": fourth,
            "fraction": found.fraction,
        }

    return probe(measure, every=every)


def hessian_density(
    at: Float[Array, " x"], width: float, every: Every = None, *, draws: int = 8, degree: int = 32, seed: int = 0
) -> Probe:
    """The density of the Hessian's eigenvalues at the given points, smoothed; the entry `standard_error` beside it."""

    def measure(snapshot: Snapshot) -> dict[str, Any]:
        found = spectral_density(snapshot.loss, snapshot.model, jax.random.key(seed), draws=draws, degree=degree)
        value, standard_error = found.density(at, width)
        return {"value": value, "standard_error": standard_error}

    return probe(measure, dims=("eigenvalue",), coords={"eigenvalue": np.asarray(at)}, every=every)


def _followed(k: int, every: Every, tolerance: float, which: Which, max_products: int, indexed: bool) -> Probe:
    """Eigenpairs along a trajectory: the memory is the last subspace and the number of looks."""

    def measure(snapshot: Snapshot, memory: Any) -> tuple[Any, Any]:
        subspace, looks = memory
        flat = flatten(snapshot.loss, snapshot.model)
        gradient, product = linearized(flat.objective, flat.point)
        if gradient.size <= SMALL:
            found = diagonalized(product, flat.point, k, which)
        else:
            found = searched(product, gradient, k, tolerance, which, subspace, looks, 1, max_products)
        return entries(found, gradient), (found.subspace, looks + 1)

    def entries(found: Eigenpairs, gradient: Float[Array, " n"]) -> dict[str, Any]:
        length = jnp.linalg.norm(gradient)
        along = jnp.abs(found.vectors @ gradient) / jnp.where(length > 0, length, 1)
        each = {"value": found.values, "residual": found.residuals, "error": found.errors}
        each |= {"alignment": along, "angle": found.angles}
        each = each if indexed else {name: entry[0] for name, entry in each.items()}
        return each | {"products": found.products}

    def remember(snapshot: Snapshot) -> Any:
        point = flatten(snapshot.loss, snapshot.model).point
        start = jax.random.normal(jax.random.key(1), (min(k + 1, point.size), point.size), point.dtype)
        return start, jnp.zeros((), jnp.int32)

    if not indexed:
        return Probe(measure, every=every, remember=remember)
    dims: dict[str, Dims] = dict.fromkeys(("value", "residual", "error", "alignment", "angle"), ("index",))
    return Probe(measure, dims, {"index": range(1, k + 1)}, every, remember)


def output_hessian_norm(
    function: Callable[[Any], Any], every: Every = None, *, tolerance: float = 1e-3, max_products: int = 300
) -> Probe:
    """In the loop: the Hessian norm of an output, such as `lambda net: net(x)[0]`, over the parameters; beside it
    `_residual`, `_error` and `_products`."""

    def measure(snapshot: Snapshot) -> dict[str, Any]:
        return hessian_norm(function, snapshot.model, tolerance=tolerance, max_products=max_products)._asdict()

    return probe(measure, every=every)
