"""The symmetric two-layer linear model, f(x) = U U^T x: its end-to-end matrix is always positive semi-definite."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float


class Symmetric(eqx.Module):
    """`f(U; x) = U U^T x`, with `U` of any width; the Jacobian `W = U U^T` keeps the rank that `U` starts with."""

    factor: Float[Array, "d width"]

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        return self.factor @ (self.factor.T @ x)

    def matrix(self) -> Float[Array, "d d"]:
        return self.factor @ self.factor.T
