"""Curvature inside the loop: sharpness, alignment, the discriminant of the flip, the spectrum; each with its error.

Sharpness, eigenvalues and alignment continue from the vectors found at the last recording.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.geometry.directional import flip
from dynascope.geometry.eigenpairs import (
    CHECK_EVERY,
    Eigenpairs,
    check_count,
    check_search,
    diagonalize,
    search_eigenpairs,
)
from dynascope.geometry.hessian import Flat, flatten, linearize_gradient
from dynascope.geometry.krylov import Aim, Which
from dynascope.geometry.linearity import hessian_norm
from dynascope.geometry.preconditioned import precondition
from dynascope.geometry.spectral_density import check_quadrature, spectral_density
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.preconditioner import preconditioner
from dynascope.probes.probe import Dims, Every, Probe, Snapshot, Value, probe

SMALL = 32
"""Up to this many parameters, diagonalizing the whole Hessian at every recording costs no more than a search."""


def _plain(snapshot: Snapshot) -> Flat:
    return flatten(snapshot.loss, snapshot.model)


def sharpness(
    *, every: Every = None, tolerance: float = 1e-3, which: Which = "largest", max_products: int = 100
) -> Probe:
    """The largest eigenvalue of the Hessian, and how the gradient is aligned with its eigenvector.

    Args:
        every: The cadence, in steps; see `Probe`.
        tolerance: Relative error of the eigenvalue at which the search ends.
        which: "largest", or "magnitude" for the largest in size.
        max_products: The largest number of Hessian-vector products at a recording.

    Returns:
        A probe with scalar values. In the trace, if it is called `sharpness`: `sharpness`; `sharpness_residual`, within
        which there is an eigenvalue; `sharpness_error`, an estimate of the error that is usually much smaller;
        `sharpness_alignment`, |g.u| / |g|, and `sharpness_angle`, within which the eigenvector is known (the error of
        the alignment); `sharpness_missed`, the probability that a larger eigenvalue, or a copy, was missed: at most
        1e-3 at the first recording and every 64th after it, which are checked, and otherwise 1, no bound;
        `sharpness_products`, the number used.
    """
    return describe_probe(_follow_eigenpairs(1, every, tolerance, which, max_products, False), "sharpness")


def top_eigenvalues(
    k: int, *, every: Every = None, tolerance: float = 1e-3, which: Which = "largest", max_products: int = 200
) -> Probe:
    """The k largest eigenvalues of the Hessian, largest first.

    Args:
        k: Number of eigenvalues.
        every: The cadence, in steps; see `Probe`.
        tolerance: Relative error of each eigenvalue at which the search ends.
        which: "largest", or "magnitude" for the largest in size.
        max_products: The largest number of Hessian-vector products at a recording.

    Returns:
        A probe with the dimension `index`, shape (k,), and the entries of `sharpness`.
    """
    return describe_probe(_follow_eigenpairs(k, every, tolerance, which, max_products, True), "top_eigenvalues")


def preconditioned_sharpness(
    *, every: Every = None, tolerance: float = 1e-3, max_products: int = 100, eps_in_sqrt: bool = True
) -> Probe:
    """The largest eigenvalue of the Hessian in the geometry of an adaptive optimizer, P^(-1/2) H P^(-1/2).

    At its edge of stability RMSProp holds it near 2 / learning rate, and Adam near (2 + 2 b1) / ((1 - b1) learning
    rate) (Cohen et al. 2022). `dynascope.torch.sharpness(preconditioned=True)` is the same in PyTorch.

    Args:
        every: The cadence, in steps; see `Probe`.
        tolerance: Relative error of the eigenvalue at which the search ends.
        max_products: The largest number of Hessian-vector products at a recording.
        eps_in_sqrt: The option of that name of `optax.rmsprop`, which its state does not hold.

    Returns:
        A probe for a descent whose optimizer is Adam, AdamW, AMSGrad, RMSProp or Adagrad, made with
        `optax.inject_hyperparams`: its P is read from the state. The values are scalars, the further entries those of
        `sharpness`, in that geometry, and `converged`: whether `error` is within the tolerance. With Adam the value is
        NaN and `converged` false before the first step.
    """
    checks.flags(eps_in_sqrt=eps_in_sqrt)

    def measured(snapshot: Snapshot) -> tuple[Array, Array]:
        diagonal = preconditioner(snapshot, eps_in_sqrt=eps_in_sqrt)
        known = jnp.all(jnp.isfinite(diagonal) & (diagonal > 0))
        return jnp.where(known, diagonal, 1), known

    def rescaled(snapshot: Snapshot) -> Flat:
        return flatten(*precondition(snapshot.loss, snapshot.model, measured(snapshot)[0]))

    followed = _follow_eigenpairs(1, every, tolerance, "largest", max_products, False, rescaled)

    def measure(snapshot: Snapshot, state: PyTree) -> tuple[Value, PyTree]:
        found, state = followed.measure(snapshot, state)
        known = measured(snapshot)[1]
        within = known & (found["error"] <= tolerance * jnp.abs(found["value"]))
        return found | {"value": jnp.where(known, found["value"], jnp.nan), "converged": within}, state

    return describe_probe(Probe(measure, every=every, initial_state=followed.initial_state), "preconditioned_sharpness")


def gradient_alignment(*, every: Every = None, tolerance: float = 1e-5) -> Probe:
    """|g.u| / |g|, with u the top eigenvector of the Hessian.

    If the sharpness is recorded anyway, its probe gives the same without a second search.

    Args:
        every: The cadence, in steps; see `Probe`.
        tolerance: Relative error of the eigenvalue at which the search ends.

    Returns:
        A probe with scalar values; further entries: `angle` (its error) and `sharpness`.
    """
    both = sharpness(every=every, tolerance=tolerance)

    def measure(snapshot: Snapshot, state: PyTree) -> tuple[Value, PyTree]:
        found, state = both.measure(snapshot, state)
        return {"value": found["alignment"], "angle": found["angle"], "sharpness": found["value"]}, state

    return describe_probe(Probe(measure, every=every, initial_state=both.initial_state), "gradient_alignment")


def flip_discriminant(learning_rate: Float[Array, ""] | float, *, every: Every = None) -> Probe:
    """D = 3 f3^2 - f2 f4 along the unit gradient, at the minimum of the loss along the gradient step.

    Args:
        learning_rate: The length of the step, in gradients.
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with scalar values; further entries: `second`, `third`, `fourth`, the derivatives there; `fraction`, the
        part of the step at which the minimum lies.
    """
    checks.real("learning_rate", learning_rate, above=0)

    def measure(snapshot: Snapshot) -> dict[str, Array]:
        found = flip(snapshot.loss, snapshot.model, learning_rate)
        _, _, second, third, fourth = found.derivatives
        return {
            "value": found.discriminant,
            "second": second,
            "third": third,
            "fourth": fourth,
            "fraction": found.fraction,
        }

    return describe_probe(probe(measure, every=every), "flip_discriminant")


def hessian_density(
    at: Float[Array, " x"], width: float, *, every: Every = None, draws: int = 8, degree: int = 32, seed: int = 0
) -> Probe:
    """The density of the Hessian's eigenvalues, smoothed by a Gaussian.

    Args:
        at: The eigenvalues at which to evaluate it, `(x,)`.
        width: The standard deviation of the Gaussian.
        every: The cadence, in steps; see `Probe`.
        draws: Number of random vectors.
        degree: Number of Hessian-vector products for each.
        seed: Seed of the random vectors, the same at every recording.

    Returns:
        A probe with the dimension `eigenvalue`; further entry: `standard_error`.
    """
    at = checks.jax_array("at", at, ndim=1)
    checks.real("width", width, above=0)
    check_quadrature(draws, degree)
    checks.whole("seed", seed, at_least=0, at_most=2**32 - 1)

    def measure(snapshot: Snapshot) -> dict[str, Array]:
        found = spectral_density(snapshot.loss, snapshot.model, jax.random.key(seed), draws=draws, degree=degree)
        value, standard_error = found.density(at, width)
        return {"value": value, "standard_error": standard_error}

    return describe_probe(
        probe(measure, dims=("eigenvalue",), coords={"eigenvalue": np.asarray(at)}, every=every), "hessian_density"
    )


def _follow_eigenpairs(
    k: int,
    every: Every,
    tolerance: float,
    which: Which,
    max_products: int,
    indexed: bool,
    flat_loss: Callable[[Snapshot], Flat] = _plain,
) -> Probe:
    """Eigenpairs along a trajectory: the state is the last subspace and the number of recordings."""
    check_search(k, tolerance, max_products, which)

    def measure(snapshot: Snapshot, state: PyTree) -> tuple[Value, PyTree]:
        subspace, recordings = state
        flat = flat_loss(snapshot)
        gradient, product = linearize_gradient(flat.objective, flat.point)
        check_count(k, gradient.size)
        aim = Aim(k, which, tolerance, max_products, recordings % CHECK_EVERY == 0)
        if gradient.size <= SMALL:
            found = diagonalize(product, flat.point, aim)
        else:
            found = search_eigenpairs(product, gradient, aim, subspace, recordings)
        return entries(found, gradient), (found.subspace, recordings + 1)

    def entries(found: Eigenpairs, gradient: Float[Array, " n"]) -> dict[str, Array]:
        length = jnp.linalg.norm(gradient)
        along = jnp.abs(found.vectors @ gradient) / jnp.where(length > 0, length, 1)
        each = {"value": found.values, "residual": found.residuals, "error": found.errors}
        each |= {"alignment": along, "angle": found.angles}
        each = each if indexed else {name: entry[0] for name, entry in each.items()}
        return each | {"missed": found.missed, "products": found.products}

    def initial_state(snapshot: Snapshot) -> PyTree:
        point = flatten(snapshot.loss, snapshot.model).point
        start = jax.random.normal(jax.random.key(1), (min(k + 1, point.size), point.size), point.dtype)
        return start, jnp.zeros((), jnp.int32)

    if not indexed:
        return Probe(measure, every=every, initial_state=initial_state)
    dims: dict[str, Dims] = dict.fromkeys(("value", "residual", "error", "alignment", "angle"), ("index",))
    return Probe(measure, dims, {"index": range(1, k + 1)}, every, initial_state)


def output_hessian_norm(
    function: Callable[[PyTree], PyTree], *, every: Every = None, tolerance: float = 1e-3, max_products: int = 300
) -> Probe:
    """The spectral norm of the Hessian of an output over the parameters.

    Args:
        function: `function(model)`, a scalar, such as `lambda net: net(x)[0]`.
        every: The cadence, in steps; see `Probe`.
        tolerance: Relative error at which the search ends.
        max_products: The largest number of Hessian-vector products at a recording.

    Returns:
        A probe with scalar values; further entries: `residual`, `error` and `products`.
    """
    checks.function("function", function, "function(model)")
    check_search(1, tolerance, max_products)

    def measure(snapshot: Snapshot) -> dict[str, Array]:
        return hessian_norm(function, snapshot.model, tolerance=tolerance, max_products=max_products)._asdict()

    return describe_probe(probe(measure, every=every), "output_hessian_norm")
