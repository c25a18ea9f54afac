"""Matrix factorization: Y Z^T fitted to a matrix C, or X X^T to a symmetric one.

"Simple structures in neural networks", Section 3.6 and Appendix B.10-B.11. (Y, Z, C, eta) -> (cY, cZ, c^2 C, eta/c^2)
maps trajectories to trajectories: only eta times the spectrum of C matters, so one may set eta = 1.
Short matrix products are sums of outer products, which is much faster on a CPU for batches of small matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.scalar_losses import Reals, real

Numbers = float | Sequence[float] | Float[np.ndarray, " ..."]
Roots = Float[Array, "*stack m p"] | Float[np.ndarray, "*stack m p"]
Factors = dict[str, Array]
"""`Y`, m by p, and `Z`, q by p."""


class Factorization(eqx.Module):
    """L(Y, Z) = ||Y Z^T - C||^2 / 2 with C of any shape; `task(factors)` is the loss."""

    target: Float[Array, "m q"]
    """C."""

    def __check_init__(self) -> None:
        checks.array("target", self.target, ndim=2, lists=False)

    def __call__(self, factors: Factors) -> Float[Array, ""]:
        return jnp.sum(self.excess(factors) ** 2) / 2

    def excess(self, factors: Factors) -> Float[Array, "m q"]:
        """M = Y Z^T - C.

        Args:
            factors: Y (m, p) and Z (q, p).
        """
        return matmul(factors["Y"], factors["Z"].T) - self.target

    def gradient(self, factors: Factors) -> Factors:
        """The gradient (M Z, M^T Y).

        Args:
            factors: Y (m, p) and Z (q, p).
        """
        excess = self.excess(factors)
        return {"Y": matmul(excess, factors["Z"]), "Z": matmul(excess.T, factors["Y"])}

    def step(self, factors: Factors, rate: Reals) -> Factors:
        """One step of gradient descent.

        Args:
            factors: Y (m, p) and Z (q, p).
            rate: The learning rate.
        """
        return jax.tree.map(lambda p, g: p - rate * g, factors, self.gradient(factors))

    def hessian_product(self, factors: Factors, direction: Factors) -> Factors:
        """The Hessian times (dY, dZ): (A Z + M dZ, A^T Y + M^T dY), A = dY Z^T + Y dZ^T.

        Args:
            factors: Y (m, p) and Z (q, p).
            direction: dY and dZ, in their shapes.
        """
        Y, Z, dY, dZ = factors["Y"], factors["Z"], direction["Y"], direction["Z"]
        excess, change = self.excess(factors), matmul(dY, Z.T) + matmul(Y, dZ.T)
        return {"Y": matmul(change, Z) + matmul(excess, dZ), "Z": matmul(change.T, Y) + matmul(excess.T, dY)}


class SymmetricFactorization(eqx.Module):
    """L(X) = ||X X^T - C||^2 / 4 (3.11); `task(X)` is the loss."""

    target: Float[Array, "m m"]
    """C."""

    def __check_init__(self) -> None:
        if len(set(checks.array("target", self.target, ndim=2, lists=False).shape)) > 1:
            raise ValueError(f"target must be a square matrix; got shape {self.target.shape}")

    def __call__(self, X: Float[Array, "m p"]) -> Float[Array, ""]:
        return jnp.sum(self.excess(X) ** 2) / 4

    def excess(self, X: Float[Array, "m p"]) -> Float[Array, "m m"]:
        """M = X X^T - C.

        Args:
            X: The factor, (m, p).
        """
        return matmul(X, X.T) - self.target

    def gradient(self, X: Float[Array, "m p"]) -> Float[Array, "m p"]:
        """The gradient M X.

        Args:
            X: The factor, (m, p).
        """
        return matmul(self.excess(X), X)

    def step(self, X: Float[Array, "m p"], rate: Reals) -> Float[Array, "m p"]:
        """One step of gradient descent.

        Args:
            X: The factor, (m, p).
            rate: The learning rate.
        """
        return X - rate * self.gradient(X)


def generic_start(key: PRNGKeyArray, shape: tuple[int, int, int], scale: Reals) -> Factors:
    """Factors with independent N(0, scale^2) entries.

    Args:
        key: Key of the entries.
        shape: (m, q, p).
        scale: The standard deviation. Starts above about 0.3 of a factor's largest singular value can diverge.
    """
    checks.real("scale", scale, at_least=0)
    first, second = jax.random.split(key)
    m, q, p = shape
    checks.sizes(m=m, q=q, p=p)
    return {"Y": real(scale) * jax.random.normal(first, (m, p)), "Z": real(scale) * jax.random.normal(second, (q, p))}


def generic_starts(random: np.random.Generator, count: int, dim: int, scale: Numbers) -> Factors:
    """A stack of pairs of d x d factors with independent N(0, scale^2) entries.

    Args:
        random: NumPy's generator.
        count: Number of pairs.
        dim: d.
        scale: The standard deviation: one, or one for each pair.
    """
    checks.sizes(count=count, dim=dim)
    if np.any(~(np.asarray(scale) >= 0)):
        raise ValueError(f"scale must be 0 or more; got {checks.shown(scale)}")
    sizes = np.broadcast_to(np.asarray(scale, float), count)[:, None, None]
    return {name: jnp.asarray(sizes * random.standard_normal((count, dim, dim))) for name in ("Y", "Z")}


def quasi_symmetric_start(root: Roots, alpha: Reals, noise: Factors) -> Factors:
    """(alpha X0, X0/alpha), a minimum for C = X0 X0^T, plus noise (Definition 3).

    Args:
        root: X0, (d, p).
        alpha: The imbalance.
        noise: Two arrays to add: the entries of a generic start.
    """
    checks.positive(alpha=alpha)
    root, alpha = jnp.asarray(root), real(alpha)
    return {"Y": alpha * root + noise["Y"], "Z": root / alpha + noise["Z"]}


def diagonal_step(factors: Factors, products: Float[Array, " d"]) -> Factors:
    """One step at rate 1 on C = diag(eta sigma_i^2).

    Args:
        factors: Y and Z, (d, p) each.
        products: eta sigma_i^2, (d,).
    """
    return Factorization(jnp.diag(products)).step(factors, 1.0)


def matmul(left: Float[Array, "i k"], right: Float[Array, "k j"]) -> Float[Array, "i j"]:
    """A product at full precision.

    Args:
        left: A matrix (i, k).
        right: A matrix (k, j).
    """
    if left.shape[1] > 8:
        return jnp.matmul(left, right, precision="highest")
    total = left[:, 0, None] * right[None, 0, :]
    for k in range(1, left.shape[1]):
        total = total + left[:, k, None] * right[None, k, :]
    return total
