"""Matrix factorization: Y Z^T fitted to a matrix C, or X X^T to a symmetric one.

"Simple structures in neural networks", Section 3.6 and Appendix B.10-B.11. (Y, Z, C, eta) -> (cY, cZ, c^2 C, eta/c^2)
maps trajectories to trajectories: only eta times the spectrum of C matters, so one may run with eta = 1.
Short matrix products are written out, which for batches of small matrices is much faster on a CPU.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope.tasks.scalar_losses import Reals, real

Factors = dict[str, Array]
"""`Y`, m by p, and `Z`, q by p."""


class Factorization(eqx.Module):
    """L(Y, Z) = ||Y Z^T - C||^2 / 2 with C of any shape; `task(factors)` is the loss."""

    target: Float[Array, "m q"]

    def __call__(self, factors: Factors) -> Float[Array, ""]:
        return jnp.sum(self.excess(factors) ** 2) / 2

    def excess(self, factors: Factors) -> Float[Array, "m q"]:
        """M = Y Z^T - C."""
        return matmul(factors["Y"], factors["Z"].T) - self.target

    def gradient(self, factors: Factors) -> Factors:
        """(M Z, M^T Y)."""
        excess = self.excess(factors)
        return {"Y": matmul(excess, factors["Z"]), "Z": matmul(excess.T, factors["Y"])}

    def step(self, factors: Factors, rate: Reals) -> Factors:
        """One step of gradient descent."""
        return jax.tree.map(lambda p, g: p - rate * g, factors, self.gradient(factors))

    def hessian_product(self, factors: Factors, direction: Factors) -> Factors:
        """The Hessian times (dY, dZ): (A Z + M dZ, A^T Y + M^T dY), A = dY Z^T + Y dZ^T."""
        Y, Z, dY, dZ = factors["Y"], factors["Z"], direction["Y"], direction["Z"]
        excess, change = self.excess(factors), matmul(dY, Z.T) + matmul(Y, dZ.T)
        return {"Y": matmul(change, Z) + matmul(excess, dZ), "Z": matmul(change.T, Y) + matmul(excess.T, dY)}


class SymmetricFactorization(eqx.Module):
    """L(X) = ||X X^T - C||^2 / 4 (3.11)."""

    target: Float[Array, "m m"]

    def __call__(self, X: Float[Array, "m p"]) -> Float[Array, ""]:
        return jnp.sum(self.excess(X) ** 2) / 4

    def excess(self, X: Float[Array, "m p"]) -> Float[Array, "m m"]:
        """M = X X^T - C."""
        return matmul(X, X.T) - self.target

    def gradient(self, X: Float[Array, "m p"]) -> Float[Array, "m p"]:
        """M X."""
        return matmul(self.excess(X), X)

    def step(self, X: Float[Array, "m p"], rate: Reals) -> Float[Array, "m p"]:
        """One step of gradient descent."""
        return X - rate * self.gradient(X)


def generic_start(key: PRNGKeyArray, shape: tuple[int, int, int], scale: Reals) -> Factors:
    """Independent N(0, scale^2) entries; `shape` is (m, q, p). Keep the scale below about 0.3 of the largest singular
    value of a factor: larger starts can diverge by themselves."""
    first, second = jax.random.split(key)
    m, q, p = shape
    return {"Y": real(scale) * jax.random.normal(first, (m, p)), "Z": real(scale) * jax.random.normal(second, (q, p))}


def quasi_symmetric_start(root: Float[Array, "m p"], alpha: Reals, key: PRNGKeyArray, noise: Reals) -> Factors:
    """(alpha X0, X0/alpha), a minimum for C = X0 X0^T, plus N(0, noise^2) entries (Definition 3)."""
    stray = generic_start(key, (root.shape[0], root.shape[0], root.shape[1]), noise)
    return {"Y": real(alpha) * root + stray["Y"], "Z": root / real(alpha) + stray["Z"]}


def random_root(key: PRNGKeyArray, dim: int) -> Float[Array, "d d"]:
    """X0 with independent N(0, 1) entries: the law which the orbit printed in Figure B.3 suggests."""
    return jax.random.normal(key, (dim, dim))


def gram(root: Float[Array, "m p"]) -> Float[Array, "m m"]:
    """C = X0 X0^T."""
    return matmul(root, root.T)


def matmul(left: Float[Array, "i k"], right: Float[Array, "k j"]) -> Float[Array, "i j"]:
    """A product at full precision."""
    if left.shape[1] > 8:
        return jnp.matmul(left, right, precision="highest")
    total = left[:, 0, None] * right[None, 0, :]
    for k in range(1, left.shape[1]):
        total = total + left[:, k, None] * right[None, k, :]
    return total
