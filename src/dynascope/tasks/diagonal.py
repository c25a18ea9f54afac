"""Losses of a product beta = u * v: regression on the outputs of a diagonal teacher, and a quadratic.

"Transformers learn through gradual rank increase", Section 2 and Appendix A. The loss is half the mean over samples
of the squared error summed over outputs; stage times depend on this choice. Both tasks are functions of beta, and
losses of any model with `product()`, so that theory, `descend` and `flow` share them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dynascope.checks import array, function, rows, sizes, whole
from dynascope.tasks.task import DataTask, PopulationTask

Product = Float[Array, " p"]
Numbers = Float[np.ndarray, " ..."]


class DiagonalRegression(PopulationTask, DataTask):
    """Half the mean squared error of h(x; beta), summed over outputs; `task(beta)` is the loss."""

    network: Callable
    """h, as a function `network(x, beta)`."""
    x: Float[Array, "samples ..."]
    """The inputs."""
    y: Float[Array, "samples ..."]
    """The targets."""

    def __check_init__(self) -> None:
        function("network", self.network, "network(x, beta)")
        rows(x=self.x, y=self.y)

    def __call__(self, beta: Product) -> Float[Array, ""]:
        return self._error(beta, self.x, self.y)

    def population_loss(self, model: Any) -> Float[Array, ""]:
        """The loss of a model on all samples."""
        return self(_product(model))

    def loss(self, model: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        """The loss of a model on some of the samples."""
        return self._error(_product(model), *batch)

    def _error(self, beta: Product, x: Array, y: Array) -> Float[Array, ""]:
        outputs = jax.vmap(lambda tokens: self.network(tokens, beta))(x)
        return jnp.sum((outputs - y) ** 2) / (2 * x.shape[0])


class QuadraticLoss(PopulationTask):
    """beta^T S beta / 2 - c^T beta: the linear network with S = E[x x^T], c = E[x y], less the constant E[y^2]/2."""

    S: Float[Array, "p p"]
    """E[x x^T]."""
    c: Product
    """E[x y]."""

    def __check_init__(self) -> None:
        array("S", self.S, ndim=2, lists=False)
        array("c", self.c, ndim=1, lists=False)
        if self.S.shape != 2 * self.c.shape:
            raise ValueError(f"S must have shape (p, p) and c shape (p,); got {self.S.shape} and {self.c.shape}")

    def __call__(self, beta: Product) -> Float[Array, ""]:
        return jnp.dot(beta, jnp.matmul(self.S, beta, precision="highest")) / 2 - jnp.dot(self.c, beta)

    def population_loss(self, model: Any) -> Float[Array, ""]:
        """The loss of a model."""
        return self(_product(model))


def _product(model: Any) -> Product:
    """beta of a model."""
    if not hasattr(model, "product"):
        raise TypeError(f"model must have product(), as ds.models.Diagonal has; got a {type(model).__name__}")
    return model.product()


class ToyHead(NamedTuple):
    """Appendix A's task."""

    x: Numbers
    """Token sequences, (samples, tokens, dim)."""
    teacher: Numbers
    """The teacher's product, (2 dim,)."""
    u: Numbers
    """The student's u, (2 dim,), before it is scaled."""
    v: Numbers
    """The student's v, (2 dim,), before it is scaled."""


def toy_head(seed: int, dim: int = 50, tokens: int = 10, samples: int = 1000, kept: int | None = None) -> ToyHead:
    """Sequences, the four weight vectors of the teacher's head and the student's u and v of Appendix A, all normal.

    The draws are NumPy's, so that a seed gives the same example in any program.

    Args:
        seed: The seed.
        dim: Number of coordinates of a token.
        tokens: Number of tokens of a sequence.
        samples: Number of sequences.
        kept: Number of random coordinates of each of the teacher's two products that are not zero. None: all.
    """
    sizes(dim=dim, tokens=tokens, samples=samples)
    if kept is not None:
        whole("kept", kept, at_least=1, at_most=dim)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, tokens, dim))
    weights = rng.normal(size=(4, dim))
    teacher = np.stack([weights[0] * weights[1], weights[2] * weights[3]])
    if kept is not None:
        for product in teacher:
            product[rng.permutation(dim)[kept:]] = 0.0
    student = np.random.default_rng(100 + seed)
    return ToyHead(x, teacher.ravel(), student.normal(size=2 * dim), student.normal(size=2 * dim))


class LinearExample(NamedTuple):
    """A quadratic loss in p coordinates, and a start u, v before it is scaled."""

    S: Numbers
    """The matrix of the quadratic, (p, p)."""
    c: Numbers
    """Its linear part, (p,)."""
    u: Numbers
    """u at the start, (p,)."""
    v: Numbers
    """v at the start, (p,)."""

    def loss(self) -> QuadraticLoss:
        """The loss as a task."""
        return QuadraticLoss(jnp.asarray(self.S), jnp.asarray(self.c))


def exit_and_return() -> LinearExample:
    """Four coordinates, one of which is learned, leaves the support and returns with the opposite sign."""
    return LinearExample(
        S=np.array(
            [
                [1.6947, 0.0455, -2.6385, -1.0019],
                [0.0455, 0.7027, -0.0937, -0.2892],
                [-2.6385, -0.0937, 4.7084, 1.5180],
                [-1.0019, -0.2892, 1.5180, 0.9308],
            ]
        ),
        c=np.array([3.1024, 0.3802, -4.4999, -2.0589]),
        u=np.array([-0.3499, -1.9005, 0.8432, 0.1662]),
        v=np.array([1.3967, 0.2259, -2.3233, -1.0363]),
    )
