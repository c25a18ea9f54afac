"""The tangent kernel layer by layer, for models whose affine maps are known; no Jacobian is made.

Of a map z = s W a (+ b) the kernel needs the inputs a and the derivative D = df/dz:
K += (D D^T) o (s^2 A A^T), and D D^T for the bias, o the entrywise product. Where W acts at many positions (a
convolution, a sequence) the derivative with respect to W is the sum over positions of D a^T; it is made for some output
channels at a time and contracted at once.

A model says what its maps are by `tapped(x, tap)`: every map calls `tap(z, a, scale=, bias=, windows=)` and goes on
with what comes back. `models.tapping` has the contract; a model of one's own needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree


class Map(NamedTuple):
    """What is known of an affine map without running it."""

    scale: float
    bias: bool
    windows: Callable[[Array], Array] | None


def has_layers(model: Any) -> bool:
    """Whether the model says what its affine maps are."""
    return callable(getattr(model, "tapped", None))


def layerwise_kernel(model: Any, x: PyTree, budget: int) -> Float[Array, "nk nk"]:
    """The kernel at the examples x (first axis), outputs of an example side by side; at most about `budget` bytes at a
    time for derivatives with respect to weights that act at many positions."""
    maps, shapes = _outline(model, jax.tree.map(lambda leaf: leaf[0], x))

    def sensitivities(x: PyTree) -> tuple[list[Array], list[Array]]:
        """For each map its inputs, and the derivatives of all outputs with respect to what it gives."""

        def outputs(offsets: list[Array]) -> tuple[Array, list[Array]]:
            inputs: list[Array] = []

            def tap(z: Array, a: Array, **_: Any) -> Array:
                inputs.append(a)
                return z + offsets[len(inputs) - 1]

            return jnp.ravel(model.tapped(x, tap)), inputs

        at = [jnp.zeros(shape.shape, shape.dtype) for shape in shapes]
        value, pull, inputs = jax.vjp(outputs, at, has_aux=True)
        return inputs, jax.vmap(lambda one: pull(one)[0])(jnp.eye(value.size, dtype=value.dtype))

    inputs, slopes = jax.vmap(sensitivities)(x)
    kernel = None
    for one, a, d in zip(maps, inputs, slopes, strict=True):
        part = _at_one_position(one, a, d) if d.ndim == 3 else _at_many_positions(one, a, d, budget)
        kernel = part if kernel is None else kernel + part
    assert kernel is not None
    return kernel


def _outline(model: Any, x: PyTree) -> tuple[list[Map], list[Any]]:
    """The model's maps, in order, and the shapes of what they give."""
    maps: list[Map] = []
    shapes: list[Any] = []

    def tap(z: Array, a: Array, *, scale: float, bias: bool, windows: Callable | None) -> Array:
        maps.append(Map(scale, bias, windows))
        shapes.append(jax.ShapeDtypeStruct(z.shape, z.dtype))
        return z

    jax.eval_shape(lambda x: model.tapped(x, tap), x)
    return maps, shapes


def full(number: Any) -> Any:
    """The precision in which derivatives of this one are summed: float32 at least."""
    return number if jnp.finfo(number).bits >= 32 else jnp.dtype(jnp.float32)


def summed(left: Float[Array, "i f"], right: Float[Array, "f j"]) -> Float[Array, "i j"]:
    """The product of two matrices, in full precision."""
    return jnp.matmul(left, right, precision="highest", preferred_element_type=full(left.dtype))


def _gram(rows: Float[Array, "i f"]) -> Float[Array, "i i"]:
    return summed(rows, rows.T)


def _at_one_position(one: Map, a: Float[Array, "n f"], d: Float[Array, "n k m"]) -> Float[Array, "nk nk"]:
    n, k, m = d.shape
    factor = one.scale**2 * _gram(a) + (1.0 if one.bias else 0.0)
    slopes = _gram(d.reshape(n * k, m)).reshape(n, k, n, k)
    return (slopes * factor[:, None, :, None]).reshape(n * k, n * k)


def _at_many_positions(one: Map, a: Array, d: Float[Array, "n k ..."], budget: int) -> Float[Array, "nk nk"]:
    """Sum over positions first, for so many output channels at a time as the budget allows."""
    n, k, m = d.shape[0], d.shape[1], d.shape[-1]
    d = d.reshape(n, k, -1, m)
    a = a if one.windows is None else jax.vmap(one.windows)(a)
    a = a.reshape(n, d.shape[2], -1)
    row = n * k * a.shape[-1] * a.dtype.itemsize
    channels = max(c for c in range(1, m + 1) if m % c == 0 and (c == 1 or c * row <= budget))

    def some(kernel: Array, first: Array) -> tuple[Array, None]:
        chosen = lax.dynamic_slice_in_dim(d, first, channels, axis=3)
        slopes = jnp.einsum("nkpc,npf->nkcf", chosen, a, precision="highest")
        return kernel + _gram(slopes.reshape(n * k, channels * a.shape[-1])), None

    start = jnp.zeros((n * k, n * k), full(d.dtype))
    kernel, _ = lax.scan(some, start, channels * jnp.arange(m // channels, dtype=jnp.int32))
    kernel = one.scale**2 * kernel
    return kernel + _gram(d.sum(axis=2).reshape(n * k, m)) if one.bias else kernel
