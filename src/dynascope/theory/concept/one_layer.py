"""The one-layer linear model `f(W; x) = W x`: its learning in closed form.

"Dynamics of Concept Learning and Compositional Generalization", Theorem 4.1. Gradient flow on the population loss,
`dW/dt = -(W - I) A` with `A = diag(a)`, relaxes column `i` of `W` at rate `a_i`, so that for every input `z`

    f(W(t), z)_k = (1 - e^{-a_k t}) z_k  +  sum_{i=1}^{d} e^{-a_i t} w_ki(0) z_i
                   growth                  noise

Clock: `t` is the time of gradient flow on eq. (2.1), half the squared error summed over coordinates. After `n` gradient
steps of size `eta`, `t = eta n`; for a loss averaged over coordinates `eta` is the learning rate times `2/d`. Gradient
descent itself obeys the same formula exactly, with `(1 - eta a_i)^n` instead of `e^{-a_i t}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int


class OutputTerms(NamedTuple):
    """The two parts of an output: `growth` toward the target and the decaying `noise` of the initial weights."""

    growth: Float[Array, "time d"]
    noise: Float[Array, "time d"]

    @property
    def output(self) -> Float[Array, "time d"]:
        """What the model returns: the sum of the two."""
        return self.growth + self.noise


Numbers = Sequence[float | int] | np.ndarray | Array


def _vector(numbers: Numbers, dim: int) -> Float[Array, " d"]:
    vector = jnp.asarray(numbers)
    if not jnp.issubdtype(vector.dtype, jnp.floating):
        vector = vector.astype(float)
    return jnp.pad(vector, (0, dim - vector.shape[0]))


def second_moment(mu: Numbers, sigma: Numbers, dim: int, origin: bool = False) -> Float[Array, " d"]:
    """`a_p = sigma_p^2 + mu_p^2 / s`, the diagonal of `E[x x^T]` (C.13), zero beyond the given entries.

    `s = len(mu)` clusters of equal weight; with `origin` there is one more at 0, and the denominator is `s + 1`.
    """
    return _vector(sigma, dim) ** 2 + _vector(mu, dim) ** 2 / (len(mu) + origin)


def printed_second_moment(mu: Numbers, sigma: Numbers, dim: int) -> Float[Array, " d"]:
    """`(sigma_p^2 + mu_p^2) / s`: the coefficient as Section 4.1 of the submission prints it, which is wrong."""
    return (_vector(sigma, dim) ** 2 + _vector(mu, dim) ** 2) / len(mu)


def output_terms(
    times: Float[Array, " time"],
    z: Float[Array, " d"],
    W0: Float[Array, "d d"],
    a: Float[Array, " d"],
    noise_inputs: int | None = None,
) -> OutputTerms:
    """Theorem 4.1 at the given times of gradient flow.

    The theorem prints the noise sum up to `s`; that is right only where `z_i = 0` for `i > s`. The default sums to `d`;
    `noise_inputs=s` gives the printed form.
    """
    decay = jnp.exp(-times[:, None] * a)
    return _terms(decay, -jnp.expm1(-times[:, None] * a), z, W0, noise_inputs)


def discrete_output_terms(
    steps: Int[Array, " time"],
    eta: Float[Array, ""] | float | int,
    z: Float[Array, " d"],
    W0: Float[Array, "d d"],
    a: Float[Array, " d"],
    noise_inputs: int | None = None,
) -> OutputTerms:
    """The same for gradient descent with step `eta` on eq. (2.1), exact: `(1 - eta a_i)^n` after `n` steps."""
    base = jnp.broadcast_to(1 - eta * a, (steps.shape[0], a.shape[0]))
    decay = lax.pow(base, jnp.broadcast_to(steps[:, None], base.shape))
    return _terms(decay, 1 - decay, z, W0, noise_inputs)


def _terms(decay: Array, grown: Array, z: Array, W0: Array, noise_inputs: int | None) -> OutputTerms:
    kept = slice(noise_inputs)
    noise = jnp.matmul((decay * z)[:, kept], W0[:, kept].T, precision="highest")
    return OutputTerms(growth=grown * z, noise=noise)


def jacobian(times: Float[Array, " time"], W0: Float[Array, "d d"], a: Float[Array, " d"]) -> Float[Array, "time d d"]:
    """`W(t) = I + (W(0) - I) e^{-A t}`, gradient flow; where `a_i = 0` the column keeps its start."""
    identity = jnp.eye(a.shape[0], dtype=W0.dtype)
    return identity + (W0 - identity) * jnp.exp(-times[:, None, None] * a)


def in_concept_coordinates(W0: Float[Array, "d d"], rotation: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """`Q^T W Q`: the start of a model trained on rotated data `Q x`, in the axes of the concepts.

    The flow is equivariant, so the theorem holds for this start, `a` unrotated, and the output `Q^T f(Q z)`.
    """
    return jnp.linalg.multi_dot([rotation.T, W0, rotation], precision="highest")


def terminal_rate(a: Float[Array, " d"]) -> Float[Array, ""]:
    """The slope of `log ||df/dt||` at the end of learning, `-min a_k` over the learned directions (`a_k > 0`)."""
    return -jnp.min(jnp.where(a > 0, a, jnp.inf))
