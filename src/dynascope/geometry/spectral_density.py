"""The spectral density of the Hessian by stochastic Lanczos quadrature, with standard errors."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from scipy.special import stdtrit

from dynascope import checks
from dynascope.geometry.hessian import Loss, Product, Vector, flatten, linearize_gradient
from dynascope.geometry.krylov import orthonormal


class SpectralDensity(eqx.Module):
    """A Gauss quadrature for each random vector: the mean of their sums estimates sums over all eigenvalues."""

    nodes: Float[Array, "draws degree"]
    """The nodes of each quadrature: the eigenvalues of its Lanczos matrix."""
    weights: Float[Array, "draws degree"]
    """Their weights, which add up to the number of parameters in each draw."""
    diagonal: Float[Array, "draws degree"]
    """The diagonal of each Lanczos matrix."""
    couplings: Float[Array, "draws degree"]
    """Its second diagonal; the last one couples it to the rest of the space."""

    def moment(self, power: int) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """An estimate of trace(H^power), unbiased up to power 2 degree - 1.

        Args:
            power: The power of H.

        Returns:
            The estimate and its standard error, scalars.
        """
        checks.whole("power", power, at_least=0)
        return _over_draws(jnp.sum(self.weights * self.nodes**power, axis=1))

    def density(self, at: Float[Array, " x"], width: float) -> tuple[Float[Array, " x"], Float[Array, " x"]]:
        """The share of eigenvalues per unit of lambda, smoothed by a Gaussian; its integral is 1.

        Args:
            at: The points, `(x,)`.
            width: The standard deviation of the Gaussian.

        Returns:
            The density and its standard error, `(x,)` each.
        """
        checks.array("at", at, ndim=1)
        checks.real("width", width, above=0)
        bump = jnp.exp(-(((at[:, None, None] - self.nodes) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
        return _over_draws(jnp.sum(bump * self.weights, axis=-1) / jnp.sum(self.weights[0]))

    def count_above(self, level: float) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """How many eigenvalues are larger than a level.

        A sum over nodes would be off by the weights of the nodes beside the level, in all draws alike. Here the level
        is made a node. Every measure with the moments of a draw has at most the weights of the nodes above the level
        plus that of the level itself, and at least those without it (Chebyshev, Markov and Stieltjes; Akhiezer 1965,
        The classical moment problem, section 2.5). The count is the middle. The error is half of that node's weight
        plus the statistical error of the draws, so that the true count is within it in at least 99 % of all calls. It
        is small if no eigenvalues are near the level and large within a dense spectrum, which a larger `degree`
        resolves better.

        Draws are skewed if few eigenvalues are counted, and their spread then says too little. But the variance of
        v^T P v over random signs v is at most 2 rank P for a projection P, and the same for I - P, so that the error
        of c counted in n draws is at most h = 3 (2 (c + h) / n)^(1/2) at three standard deviations. Less is stated only
        if the draws agree nearly exactly, as they do for a diagonal Hessian.

        Args:
            level: The level.

        Returns:
            The count, and the error within which it is known; scalars.
        """
        checks.real("level", level)
        above, at = jax.vmap(partial(_above, level))(self.diagonal, self.couplings)
        total = jnp.sum(self.weights, axis=1)
        count, standard_error = _over_draws(total * (above + at / 2))
        draws = len(total)
        fewer = jnp.clip(jnp.minimum(count, total[0] - count), 0)
        by_rank = 9 / draws + jnp.sqrt(81 / draws**2 + 18 / draws * fewer)
        by_spread = 3 * stdtrit(draws - 1, 0.99865) * standard_error
        rounding = 10 * jnp.finfo(count.dtype).eps * total[0]
        return count, jnp.mean(total * at) / 2 + jnp.minimum(by_rank, by_spread) + rounding


def _above(
    level: float, diagonal: Float[Array, " m"], couplings: Float[Array, " m"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The weight above a level, and at it, of the quadrature with one node more, which is the level (Golub 1973, Some
    modified matrix eigenvalue problems, section 7)."""
    numbers = jnp.finfo(diagonal.dtype)
    least = jnp.sqrt(numbers.eps) * (jnp.max(jnp.abs(diagonal - level)) + jnp.max(couplings)) + numbers.tiny

    def eliminate(carry: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        pivot, before = carry
        pivot = row[0] - level - before**2 / pivot
        return (jnp.where(jnp.abs(pivot) < least, least, pivot), row[1]), None

    start = jnp.ones((), diagonal.dtype), jnp.zeros((), diagonal.dtype)
    (pivot, last), _ = lax.scan(eliminate, start, (diagonal, couplings))
    nodes, vectors = jnp.linalg.eigh(_symmetric(jnp.append(diagonal, level + last**2 / pivot), couplings))
    weights, near = vectors[0] ** 2, jnp.abs(nodes - level) <= least
    return jnp.sum(jnp.where(~near & (nodes > level), weights, 0)), jnp.sum(jnp.where(near, weights, 0))


def _symmetric(diagonal: Float[Array, " m"], couplings: Float[Array, " l"]) -> Float[Array, "m m"]:
    return jnp.diag(diagonal) + jnp.diag(couplings, 1) + jnp.diag(couplings, -1)


def _over_draws(values: Float[Array, "... draws"]) -> tuple[Float[Array, ...], Float[Array, ...]]:
    return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])


def check_quadrature(draws: int, degree: int) -> None:
    """Check that there are at least two draws, as an error estimate needs."""
    checks.whole("draws", draws, at_least=2, at_most=2**20)
    checks.whole("degree", degree, at_least=1, at_most=2**20)


@checks.converts
def spectral_density(
    loss: Loss, params: PyTree, key: PRNGKeyArray, *, draws: int = 16, degree: int = 32
) -> SpectralDensity:
    """The spectral measure of a Hessian by stochastic Lanczos quadrature.

    v^T g(H) v has the mean trace g(H) over random signs v; Lanczos from v gives the Gauss quadrature that integrates
    polynomials g up to degree 2 `degree` - 1 exactly (Golub & Welsch 1969; Ubaru, Chen & Saad 2017, Fast estimation of
    tr(f(A)) via stochastic Lanczos quadrature). Vectors are orthogonalized in full, so no eigenvalue is counted twice.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree.
        key: Key of the random sign vectors.
        draws: Number of random vectors.
        degree: Number of Hessian-vector products for each.

    Returns:
        A quadrature `(degree,)` for each of the draws.
    """
    check_quadrature(draws, degree)
    return _quadratures(loss, params, checks.key("key", key), draws, degree)


@eqx.filter_jit
def _quadratures(loss: Loss, params: PyTree, key: PRNGKeyArray, draws: int, degree: int) -> SpectralDensity:
    flat = flatten(loss, params)
    _, product = linearize_gradient(flat.objective, flat.point)
    size, dtype = flat.point.size, flat.point.dtype

    def quadrature(key: PRNGKeyArray) -> tuple[Float[Array, " degree"], ...]:
        signs, spare = jax.random.split(key)
        start = jax.random.rademacher(signs, (size,), dtype) / np.sqrt(size).astype(dtype)
        diagonal, couplings = lanczos(product, start, jax.random.normal(spare, (size,), dtype), min(degree, size))
        nodes, vectors = jnp.linalg.eigh(_symmetric(diagonal, couplings[:-1]))
        return nodes, size * vectors[0] ** 2, diagonal, couplings

    return SpectralDensity(*lax.map(quadrature, jax.random.split(key, draws)))


def lanczos(
    product: Product, start: Vector, spare: Vector, degree: int
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """The diagonal of the operator in the Lanczos basis of a unit vector, and the coupling of each vector to the next.

    If the space is exhausted early, it continues from `spare`; the coupling there is 0, as it should be.
    """
    rounding = 10 * np.finfo(start.dtype).eps

    def step(carry, i):
        basis, vector = carry
        basis = basis.at[i].set(vector)
        image = product(vector)
        diagonal = vector @ image
        following = orthonormal(image, basis, rounding * jnp.linalg.norm(image), spare)
        coupling = following @ image
        coupling = jnp.where(coupling > rounding * jnp.linalg.norm(image), coupling, 0)
        return (basis, following), (diagonal, coupling)

    basis = jnp.zeros((degree, start.size), start.dtype)
    _, (diagonal, couplings) = lax.scan(step, (basis, start), jnp.arange(degree))
    return diagonal, couplings.at[-1].set(0) if degree == start.size else couplings  # there is nothing outside
