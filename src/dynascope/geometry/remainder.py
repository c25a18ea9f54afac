"""The check that a search has missed nothing: Lanczos from a random vector, with the pairs found projected out.

A search from one vector sees each eigenvalue once, however often it is repeated, and one that starts at eigenvectors
sees nothing else. So the pairs found are projected out, and Lanczos starts again from a random vector.

Let lambda be the largest eigenvalue left, with unit eigenvector u. The j-th Lanczos vector has the component
c_j(lambda) (u . q_0) along u, where the Lanczos polynomials follow from the matrix entries a and b alone: c_0 = 1 and
b_{j+1} c_{j+1}(x) = (x - a_j) c_j(x) - b_j c_{j-1}(x). They grow with x above the largest Ritz value. The vectors are
orthonormal, so an eigenvalue of x or more needs a start with |u . q_0| <= 1 / (sum_j c_j(x)^2)^(1/2) =: delta. In N
dimensions the probability of that is at most delta (2 N / pi)^(1/2). (Kuczynski & Wozniakowski 1992, Estimating the
largest eigenvalue by the power and Lanczos algorithms with a random start; van Dorsselaer, Hochstenbach & van der Vorst
2000, Computing probabilistic bounds for extreme eigenvalues.) A level x is clear when this is `MISSED`.

If c_j(x) is not positive, a Ritz value has passed x, and sum_j c_j(x) q_j has a Rayleigh quotient of at least x: the
search continues from there.

A search may have to be checked several times. The j-th check clears a level at `MISSED` / (j (j + 1)), so that all of
them together miss something with a probability of at most `MISSED`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dynascope.geometry.hessian import Vector

MISSED = 1e-3
"""The probability that an eigenvalue above a clear level was missed is at most this."""

LEVELS = 4.0 ** np.arange(12) / 2
"""The third level and those that follow lie this far above the last value, in units of the error that is allowed."""
NEEDED = 1
"""The index of the level that has to be clear."""


class Remainder(NamedTuple):
    """The state of Lanczos, and its bounds on eigenvalues above each level; a second row for those below -level."""

    levels: Float[Array, " levels"]
    """In ascending order."""
    vector: Vector
    """The next vector to be multiplied."""
    before: Vector
    coupling: Float[Array, ""]
    """The entry of the Lanczos matrix between the two vectors."""
    parts: Float[Array, "sides levels"]
    """c_j of the vector."""
    parts_before: Float[Array, "sides levels"]
    squares: Float[Array, "sides levels"]
    """The sum of c_j^2 so far; -inf once a Ritz value has passed the level."""
    toward: Float[Array, "sides n"]
    """The sum of c_j q_j at the level that has to be clear."""
    signs: Float[Array, " sides"]
    """The sign of the vector in the Lanczos basis of the operator, and in that of its negative: there it alternates."""
    enough: Float[Array, ""]
    """The sum of squares at which a level is clear."""
    clear: Bool[Array, " levels"]
    found: Bool[Array, " sides"]
    """Whether a Ritz value has passed that level."""


def start_remainder(
    key: PRNGKeyArray,
    pairs: Float[Array, "k n"],
    levels: Float[Array, " levels"],
    sides: int,
    number: Int[Array, ""],
) -> Remainder:
    """At a random vector orthogonal to the pairs; `sides` is 2 to look below -level too. It is check `number` of the
    search, from 1."""
    vector = jax.random.normal(key, pairs.shape[1:], pairs.dtype)
    for _ in range(2):
        vector = vector - (pairs @ vector) @ pairs
        vector = vector / jnp.linalg.norm(vector)
    ones = jnp.ones((sides, levels.size), pairs.dtype)
    share = (number * (number + 1)).astype(pairs.dtype)
    return Remainder(
        levels,
        vector,
        jnp.zeros_like(vector),
        jnp.zeros((), pairs.dtype),
        ones,
        jnp.zeros_like(ones),
        ones,
        jnp.broadcast_to(vector, (sides, vector.size)),
        jnp.ones(sides, pairs.dtype),
        2 * (vector.size - pairs.shape[0]) / np.pi * (share / MISSED) ** 2,
        jnp.zeros(levels.shape, bool),
        jnp.zeros(sides, bool),
    )


def look_further(seen: Remainder, pairs: Float[Array, "k n"], image: Vector) -> Remainder:
    """One step of Lanczos; `image` is the product with `seen.vector`."""
    numbers = np.finfo(image.dtype)
    diagonal = seen.vector @ image
    left = image - diagonal * seen.vector - seen.coupling * seen.before
    for _ in range(2):
        left = left - (pairs @ left) @ pairs
    coupling = jnp.linalg.norm(left)
    vector = left / jnp.maximum(coupling, numbers.tiny)

    sides = jnp.array([1, -1], image.dtype)[: seen.found.size, None]
    parts = (seen.levels - sides * diagonal) * seen.parts - seen.coupling * seen.parts_before
    parts = jnp.where(seen.clear, 1, parts / coupling)  # at clear levels it need not grow until it overflows
    squares = jnp.where(parts > 0, seen.squares + parts**2, -jnp.inf)
    clear = seen.clear | jnp.all(squares >= seen.enough, axis=0)
    part = parts[:, NEEDED]
    found = part <= 0
    signs = seen.signs * sides[:, 0]
    toward = jnp.where(found[:, None], seen.toward, seen.toward + (signs * part)[:, None] * vector)
    return seen._replace(
        vector=vector,
        before=seen.vector,
        coupling=coupling,
        parts=parts,
        parts_before=seen.parts,
        squares=squares,
        toward=toward,
        signs=signs,
        clear=clear,
        found=found,
    )
