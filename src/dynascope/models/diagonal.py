"""Networks that depend on their weights only through elementwise products: f(x; u, v) = h(x; u * v).

"Transformers learn through gradual rank increase", Definition 3.1: h is any function, twice differentiable in x and
in the product beta = u * v. This file has three: a linear network (footnote 2), the attention head of Appendix A and
the transformer of Example 3.2, both with diagonal attention matrices. The products of a head are w_K * w_Q and
w_V * w_O, so that the rank of W_K W_Q^T = diag(w_K * w_Q) is its number of nonzero entries.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks

Product = Float[Array, " p"]
Tokens = Float[Array, "n d"]
PRODUCTS = ("KQ", "VO")
"""The two products of a head, in their order in beta."""


class Diagonal(eqx.Module):
    """The trained model: u and v, and the network h(x, u * v), whose own arrays are not trained.

    Args:
        u: The first factors, (size,).
        v: The second factors, (size,).
        network: `network(x, beta)`, such as `AttentionHead`.
    """

    u: Product
    v: Product
    network: Callable

    def __init__(self, u: Product, v: Product, network: Callable) -> None:
        checks.function("network", network, "network(x, beta)")
        size = getattr(network, "size", None) or np.size(u)
        if np.shape(u) != (size,) or np.shape(v) != (size,):
            raise ValueError(
                f"u and v must have shape ({size},), one entry for each product; got {np.shape(u)}, {np.shape(v)}"
            )
        self.u, self.v, self.network = checks.jax_array("u", u), checks.jax_array("v", v), network

    def product(self) -> Product:
        """beta = u * v."""
        return self.u * self.v

    def __call__(self, x: Float[Array, ...]) -> Float[Array, ...]:
        arrays, rest = eqx.partition(self.network, eqx.is_array)
        return eqx.combine(lax.stop_gradient(arrays), rest)(x, self.product())


class LinearNetwork(eqx.Module):
    """h(x; beta) = sum_i beta_i x_i."""

    dim: int = eqx.field(static=True)
    """Number of inputs."""

    def __check_init__(self) -> None:
        checks.sizes(dim=self.dim)

    @property
    def size(self) -> int:
        """The number of products."""
        return self.dim

    def __call__(self, x: Float[Array, " d"], beta: Product) -> Float[Array, ""]:
        return jnp.dot(x, beta, precision="highest")


class AttentionHead(eqx.Module):
    """h(X; [a, c]) = softmax(X diag(a) X^T) X diag(c): a = w_K * w_Q, c = w_V * w_O; no scale, no bias, no residual."""

    dim: int = eqx.field(static=True)
    """Number of coordinates of a token."""

    def __check_init__(self) -> None:
        checks.sizes(dim=self.dim)

    @property
    def size(self) -> int:
        """The number of products."""
        return 2 * self.dim

    def __call__(self, x: Tokens, beta: Product) -> Tokens:
        return attend(x, beta[: self.dim], beta[self.dim :])


class DiagonalTransformer(eqx.Module):
    """Example 3.2: in each layer Z + sum over heads of attention(Z), then + gelu(Z A) B^T with frozen A and B.

    beta holds, layer by layer and head by head, the entries of W_K W_Q^T and then those of W_V W_O^T.

    Args:
        dim: Number of coordinates of a token.
        depth: Number of layers.
        heads: Number of heads in each.
        hidden: Number of hidden neurons.
        key: Key of A and B, which are normal, of variance 1/dim (A) and scale^2/hidden (B).
        scale: The scale of B.
    """

    inner: Float[Array, "depth d hidden"]
    outer: Float[Array, "depth d hidden"]
    heads: int = eqx.field(static=True)

    def __init__(self, dim: int, depth: int, heads: int, hidden: int, *, key: PRNGKeyArray, scale: float = 0.5) -> None:
        checks.sizes(dim=dim, depth=depth, heads=heads, hidden=hidden)
        checks.real("scale", scale, at_least=0)
        first, second = jax.random.split(checks.key("key", key))
        self.inner = jax.random.normal(first, (depth, dim, hidden)) / dim**0.5
        self.outer = jax.random.normal(second, (depth, dim, hidden)) * scale / hidden**0.5
        self.heads = heads

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of beta: layers, heads, the two products, coordinates."""
        depth, dim, _ = self.inner.shape
        return depth, self.heads, len(PRODUCTS), dim

    @property
    def size(self) -> int:
        """The number of products."""
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
        """The place (layer, head, product, coordinate) of an entry of beta.

        Args:
            index: Its index.
        """
        layer, head, product, coordinate = jnp.unravel_index(checks.whole("index", index), self.shape)
        return int(layer), int(head), PRODUCTS[int(product)], int(coordinate)


def attend(x: Tokens, a: Float[Array, " d"], c: Float[Array, " d"]) -> Tokens:
    """softmax(X diag(a) X^T) X diag(c), with the softmax over each row."""
    attention = jax.nn.softmax(jnp.matmul(x * a, x.T, precision="highest"), axis=-1)
    return jnp.matmul(attention, x, precision="highest") * c
