"""The second moments by which RMSProp divides its gradients, as part of a central flow.

RMSProp averages squared gradients, nu_t = b nu_(t-1) + (1 - b) g_t^2, and steps by -eta g_t / P_t, P = sqrt(nu + eps),
entry by entry; scalar RMSProp has one number nu, of |g|^2. So nu_t - nu_(t-1) = (1 - b)/b (g_t^2 - nu_t), exactly. With
the iterates w + d, E[d] = 0 and E[d d^T] = Sigma, the mean of g^2 is (grad L)^2 + diag(H Sigma H) to second order, and

    dnu/dt = (1 - b)/b [(grad L)^2 + diag(H Sigma H) - nu],

with |grad L|^2 and tr(H Sigma H) in scalar RMSProp.

The steps are gradient descent in z = P^(1/2) w, with the Hessian A = P^(-1/2) H P^(-1/2). Let U be its eigenvectors at
the edge, A U = (2/eta) U, and Sigma = P^(-1/2) U X U^T P^(-1/2). Then H P^(-1/2) u = (2/eta) P^(1/2) u, so that

    diag(H Sigma H) = (2/eta)^2 P sum_kl X_kl u_k u_l,    tr(H Sigma H) = (2/eta)^2 P tr X.

As P grows, A shrinks: d/dt (u_i^T A u_j) has the term -1/2 u_i^T (P'/P A + A P'/P) u_j, which is
-(1/eta) sum_n u_i u_j nu'/P^2, since P'/P = nu'/(2 P^2). Its part that is linear in X is, with c = (1 - b)/b,

    -(c/eta) (2/eta)^2 sum_kl X_kl [sum_n u_i u_j u_k u_l / P],    in scalar RMSProp -(c/eta) (2/eta)^2 (1_ij / P) tr X.

This is symmetric in ij and kl, and at most 0: an oscillation holds the curvature down through nu, too
(Cohen et al. 2025, Understanding optimization in deep learning with central flows, Sections 4 and 5).
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope import checks
from dynascope.geometry.hessian import Vector

Moments = Float[Array, "*shape"]
"""nu: one number for each parameter, or one for all."""


class SecondMoments(eqx.Module):
    """The part of an optimizer in its central flow; here that of gradient descent: P = 1, and no memory."""

    def start(self, gradient: Vector) -> Moments:
        return jnp.zeros((), gradient.dtype)

    def scale(self, moments: Moments) -> Moments:
        """P."""
        return jnp.ones_like(moments)

    def velocity(self, moments: Moments, gradient: Vector, swing: Moments) -> Moments:
        """dnu/dt, if the oscillation adds `swing` to the squared gradients."""
        return jnp.zeros_like(moments)

    def swing(self, vectors: Float[Array, "k n"], covariance: Float[Array, "k k"], scale: Moments) -> Moments:
        """The addition of the oscillation to the squared gradients, over (2/eta)^2."""
        return jnp.zeros_like(scale)

    def response(self, vectors: Float[Array, "k n"], scale: Moments) -> Float[Array, "k k k k"]:
        """How X lowers u_i^T A u_j through nu, over (2/eta)^2/eta."""
        k = vectors.shape[0]
        return jnp.zeros((k, k, k, k), vectors.dtype)


class RMSProp(SecondMoments):
    """RMSProp, for `central_flow`: gradients are divided by the root of the average of their squares, entry by entry.

    Args:
        decay: The share of the average that a step keeps, above 0 and below 1.
        eps: Added to the average under the root, 0 or more.
        moments: The average at the start, one number or one for each parameter. Default: the squares of the first
            gradient.
    """

    decay: Float[Array, ""]
    eps: Float[Array, ""]
    moments: Float[Array, "*shape"] | None

    def __init__(
        self,
        decay: float | Float[Array, ""] = 0.99,
        *,
        eps: float | Float[Array, ""] = 1e-8,
        moments: float | Float[Array, "*shape"] | None = None,
    ) -> None:
        self.decay = jnp.asarray(checks.real("decay", decay, above=0, below=1), float)
        self.eps = jnp.asarray(checks.real("eps", eps, at_least=0), float)
        self.moments = None if moments is None else jnp.asarray(moments, float)

    def start(self, gradient: Vector) -> Moments:
        squares = self._squares(gradient)
        if self.moments is None:
            return squares
        if self.moments.ndim and self.moments.shape != squares.shape:
            raise ValueError(f"moments must have the shape {squares.shape}; got {self.moments.shape}")
        return jnp.broadcast_to(self.moments, squares.shape).astype(gradient.dtype)

    def scale(self, moments: Moments) -> Moments:
        return jnp.sqrt(moments + self.eps.astype(moments.dtype))

    def velocity(self, moments: Moments, gradient: Vector, swing: Moments) -> Moments:
        return self._rate(moments.dtype) * (self._squares(gradient) + swing - moments)

    def swing(self, vectors: Float[Array, "k n"], covariance: Float[Array, "k k"], scale: Moments) -> Moments:
        return scale * jnp.einsum("kn,kl,ln->n", vectors, covariance, vectors)

    def response(self, vectors: Float[Array, "k n"], scale: Moments) -> Float[Array, "k k k k"]:
        together = jnp.einsum("in,jn,kn,ln,n->ijkl", vectors, vectors, vectors, vectors, 1 / scale)
        return self._rate(vectors.dtype) * together

    def _squares(self, gradient: Vector) -> Moments:
        """The squared gradient that is averaged."""
        return gradient**2

    def _rate(self, dtype: jnp.dtype) -> Array:
        """(1 - b)/b."""
        return ((1 - self.decay) / self.decay).astype(dtype)


class ScalarRMSProp(RMSProp):
    """RMSProp with one number for all parameters, for `central_flow`: gradients are divided by the root of the average
    of their squared norm.

    The arguments are those of `RMSProp`; the default of `moments` is the squared norm of the first gradient.
    """

    def _squares(self, gradient: Vector) -> Moments:
        return jnp.sum(gradient**2)

    def swing(self, vectors: Float[Array, "k n"], covariance: Float[Array, "k k"], scale: Moments) -> Moments:
        return scale * jnp.trace(covariance)

    def response(self, vectors: Float[Array, "k n"], scale: Moments) -> Float[Array, "k k k k"]:
        identity = jnp.eye(vectors.shape[0], dtype=vectors.dtype)
        return self._rate(vectors.dtype) * identity[:, :, None, None] * identity / scale
