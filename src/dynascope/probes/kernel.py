"""The tangent kernel inside the loop: its norm, the critical rate, the loss by eigenspaces, how far it has moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.geometry.eigenpairs import CHECK_EVERY, check_search
from dynascope.geometry.kernel_spectrum import (
    DENSE,
    Convention,
    errors_of,
    kernel_change,
    kernel_eigenpairs,
    kernel_operator,
    largest_split,
    pairs_of,
    rate_of,
    slope,
    split_loss,
)
from dynascope.geometry.krylov import Aim
from dynascope.geometry.tangent_kernel import Apply, check_examples
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Dims, Every, Probe, Snapshot, Value, probe


@checks.converts
def kernel_norm(
    x: PyTree,
    y: Float[Array, "n ..."] | None = None,
    splits: Sequence[int] = (1, 5),
    *,
    every: Every = None,
    apply: Apply | None = None,
    convention: Convention = "mse",
    tolerance: float = 1e-4,
    max_products: int = 100,
    formed: bool | None = None,
    rows: int | None = None,
) -> Probe:
    """||K||, the largest eigenvalue of the tangent kernel; with targets, the loss in the span of its top eigenvectors.

    Args:
        x: The examples, `(n, ...)`.
        y: The targets, `(n, ...)`; None for the norm alone.
        splits: The numbers s of top eigenvectors whose span is compared with the rest.
        every: The cadence, in steps; see `Probe`.
        apply: `apply(model, x)`, for a model that is not callable.
        convention: "mse" if the loss is the mean of (f - y)^2 over all entries, "sum" if it is half their sum.
        tolerance: Relative error of the eigenvalues at which the search ends; it continues from the last recording.
        max_products: The largest number of products with the kernel at a recording.
        formed: Whether to form the kernel as a matrix. Default: if that is cheap.
        rows: Number of examples at a time in products, if the kernel is not formed. Default: all.

    Returns:
        A probe. In the trace, if it is called `kernel`: `kernel`; `kernel_critical_rate`; `kernel_residual`, within
        which there is an eigenvalue; `kernel_products`, the number used; and with targets `kernel_top` and
        `kernel_rest`, with the dimension `split`: the loss in the span of the top s eigenvectors of the kernel at that
        step, and in the rest.
    """
    k = 1 if y is None else largest_split(splits)
    check_search(k, tolerance, max_products)
    check_examples(x, apply, formed, rows)
    slope(1, convention)
    if y is not None:
        checks.rows(x=x, y=y)

    def measure(snapshot: Snapshot, state: PyTree) -> tuple[Value, PyTree]:
        subspace, recordings = state
        size, product, matrix = kernel_operator(snapshot.model, x, apply, formed=formed, rows=rows)
        aim = Aim(k, "largest", tolerance, max_products, recordings % CHECK_EVERY == 0)
        found = pairs_of(size, product, matrix, aim, subspace, recordings)
        value = {
            "value": found.values[0],
            "critical_rate": rate_of(found.values[0], size, convention),
            "residual": found.residuals[0],
            "products": found.products,
        }
        if y is not None:
            split = split_loss(found.vectors, errors_of(snapshot.model, x, y, apply), splits, convention)
            value |= {"top": split.top, "rest": split.rest}
        return value, (None if subspace is None else found.subspace, recordings + 1)

    def initial_state(snapshot: Snapshot) -> PyTree:
        size, product, matrix = kernel_operator(snapshot.model, x, apply, formed=formed, rows=rows)
        recordings = jnp.zeros((), jnp.int32)
        if matrix is not None and size <= DENSE:
            return None, recordings
        number = jax.eval_shape(product, jnp.zeros(size)).dtype
        return jax.random.normal(jax.random.key(1), (min(k + 1, size), size), number), recordings

    if y is None:
        return describe_probe(Probe(measure, every=every, initial_state=initial_state), "kernel_norm")
    dims: dict[str, Dims] = {"top": ("split",), "rest": ("split",)}
    return describe_probe(Probe(measure, dims, {"split": tuple(splits)}, every, initial_state), "kernel_norm")


@checks.converts
def kernel_distance(
    x: PyTree, *, every: Every = None, apply: Apply | None = None, tolerance: float = 1e-4, formed: bool | None = None
) -> Probe:
    """||K - K0|| / ||K0|| in the spectral norm, with K0 the tangent kernel at the start of the run.

    Args:
        x: The examples, `(n, ...)`.
        every: The cadence, in steps; see `Probe`.
        apply: `apply(model, x)`, for a model that is not callable.
        tolerance: Relative error of the norms.
        formed: Whether to form the kernels as matrices. Default: if that is cheap.

    Returns:
        A probe with a scalar value.
    """
    check_search(1, tolerance, 1)
    check_examples(x, apply, formed)

    def measure(snapshot: Snapshot, start: PyTree) -> tuple[Value, PyTree]:
        first = eqx.combine(start, snapshot.model)
        return kernel_change(snapshot.model, first, x, apply=apply, tolerance=tolerance, formed=formed), start

    return describe_probe(
        Probe(measure, every=every, initial_state=lambda snapshot: eqx.filter(snapshot.model, eqx.is_array)),
        "kernel_distance",
    )


def batch_critical_rate(
    *,
    every: Every = None,
    apply: Apply | None = None,
    inputs: Callable[[PyTree], PyTree] = lambda data: data[0],
    convention: Convention = "mse",
) -> Probe:
    """The critical learning rate of the batch that the next step will use.

    Args:
        every: The cadence, in steps; see `Probe`.
        apply: `apply(model, x)`, for a model that is not callable.
        inputs: From the batch's data to its examples; by default the first of (x, y).
        convention: "mse" if the loss is the mean of (f - y)^2 over all entries, "sum" if it is half their sum.

    Returns:
        A probe with a scalar value.
    """
    slope(1, convention)
    checks.function("inputs", inputs, "inputs(data)")
    if apply is not None:
        checks.function("apply", apply, "apply(model, x)")

    def measure(snapshot: Snapshot) -> Value:
        data = snapshot.batch().data
        if data is None:
            raise ValueError("probes.batch_critical_rate needs a descent with `data`")
        found = kernel_eigenpairs(snapshot.model, inputs(data), 1, apply=apply)
        return rate_of(found.values[0], found.vectors.shape[1], convention)

    return describe_probe(probe(measure, every=every), "batch_critical_rate")
