"""Networks that depend on their weights only through elementwise products: f(x; u, v) = h(x; u * v).

"Transformers learn through gradual rank increase", Definition 3.1: h is any function, twice differentiable in x and
in the product beta = u * v. Three are here: a linear one (footnote 2), the attention head of the toy task and the
transformer of Example 3.2 whose attention matrices are diagonal. A head has w_K * w_Q and w_V * w_O as its products,
so that the rank of W_K W_Q^T = diag(w_K * w_Q) is the number of entries that are not zero.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

Product = Float[Array, " p"]
Tokens = Float[Array, "n d"]
PRODUCTS = ("KQ", "VO")
"""The two products of a head, in the order in which they stand in beta."""


class Diagonal(eqx.Module):
    """The model that is trained: u and v, and the network h(x, u * v), whose own arrays stay as they are."""

    u: Product
    v: Product
    network: Callable

    def __init__(self, u: Product, v: Product, network: Callable) -> None:
        size = getattr(network, "size", u.shape[0])
        if u.shape != (size,) or v.shape != (size,):
            raise ValueError(f"u and v need {size} entries each, as many as the network has products; "
                             f"got {u.shape} and {v.shape}")  # fmt: skip
        self.u, self.v, self.network = u, v, network

    def product(self) -> Product:
        """beta = u * v."""
        return self.u * self.v

    def __call__(self, x: Float[Array, ...]) -> Float[Array, ...]:
        arrays, rest = eqx.partition(self.network, eqx.is_array)
        return eqx.combine(lax.stop_gradient(arrays), rest)(x, self.product())


class LinearNetwork(eqx.Module):
    """h(x; beta) = sum_i beta_i x_i."""

    dim: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.dim

    def __call__(self, x: Float[Array, " d"], beta: Product) -> Float[Array, ""]:
        return jnp.dot(x, beta, precision="highest")


class AttentionHead(eqx.Module):
    """h(X; [a, c]) = softmax(X diag(a) X^T) X diag(c): a = w_K * w_Q, c = w_V * w_O; no scale, no bias, no residual."""

    dim: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return 2 * self.dim

    def __call__(self, x: Tokens, beta: Product) -> Tokens:
        return attend(x, beta[: self.dim], beta[self.dim :])


class DiagonalTransformer(eqx.Module):
    """Example 3.2: in each layer Z + sum over heads of attention(Z), then + gelu(Z A) B^T with frozen A and B.

    beta holds, layer by layer and head by head, the entries of W_K W_Q^T and then those of W_V W_O^T.
    """

    inner: Float[Array, "depth d hidden"]
    outer: Float[Array, "depth d hidden"]
    heads: int = eqx.field(static=True)

    def __init__(self, dim: int, depth: int, heads: int, hidden: int, *, key: PRNGKeyArray, scale: float = 0.5) -> None:
        """Feedforward weights are normal, of variance 1/dim (A) and scale^2/hidden (B)."""
        if min(dim, depth, heads, hidden) < 1:
            raise ValueError(f"dim, depth, heads and hidden must be at least 1; got {dim}, {depth}, {heads}, {hidden}")
        first, second = jax.random.split(key)
        self.inner = jax.random.normal(first, (depth, dim, hidden)) / dim**0.5
        self.outer = jax.random.normal(second, (depth, dim, hidden)) * scale / hidden**0.5
        self.heads = heads

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of beta: layers, heads, the two products, coordinates."""
        depth, dim, _ = self.inner.shape
        return depth, self.heads, len(PRODUCTS), dim

    @property
    def size(self) -> int:
        depth, heads, products, dim = self.shape
        return depth * heads * products * dim

    def __call__(self, x: Tokens, beta: Product) -> Tokens:
        z = x
        for layer, inner, outer in zip(beta.reshape(self.shape), self.inner, self.outer, strict=True):
            z = z + sum(attend(z, head[0], head[1]) for head in layer)
            hidden = jax.nn.gelu(jnp.matmul(z, inner, precision="highest"))
            z = z + jnp.matmul(hidden, outer.T, precision="highest")
        return z

    def place(self, index: int) -> tuple[int, int, str, int]:
        """(layer, head, product, coordinate) of an entry of beta."""
        layer, head, product, coordinate = jnp.unravel_index(index, self.shape)
        return int(layer), int(head), PRODUCTS[int(product)], int(coordinate)


def attend(x: Tokens, a: Float[Array, " d"], c: Float[Array, " d"]) -> Tokens:
    """softmax(X diag(a) X^T) X diag(c), the softmax of each row."""
    attention = jax.nn.softmax(jnp.matmul(x * a, x.T, precision="highest"), axis=-1)
    return jnp.matmul(attention, x, precision="highest") * c
