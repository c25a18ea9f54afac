"""The extreme eigenpairs of a symmetric operator on tensors, from its products with vectors.

The method, with its sources, is that of `dynascope.geometry.krylov`: Rayleigh-Ritz on a growing orthonormal basis,
restarted from its best half, warm from the vectors that a neighboring point left; then a check that no larger value,
and no copy of a repeated one, was missed. Vectors stay on the model's device; small matrices are in double precision on
the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dynascope.torch.remainder import LEVELS, MISSED, NEEDED, Remainder

PATIENCE = 24
"""So many products without halving the error mean that a residual has come as far down as the products' rounding."""
ROUNDING, MOST_ROUNDING = 20, 400
"""Units of rounding that a residual may keep: the first number to begin with, at most the second if it falls no
further."""

UNITS = 4, 8
"""Units of rounding that a value may be off by, beside what its residual says, if there is one pair or several."""
DRIFT = 100
"""So many products double the square of that."""

RIVAL_TOLERANCE = 0.25
"""The rival counts as found once its residual is this part of its value."""

Product = Callable[[Tensor], Tensor]


class Aim(NamedTuple):
    """The pairs that are wanted, how exactly, and at which cost."""

    k: int
    which: str = "largest"
    tolerance: float = 1e-6
    max_products: int = 300
    checked: bool = True
    """Whether to check that nothing larger was missed."""


class Eigenpairs(NamedTuple):
    """The top k eigenvalues, largest first, each with its error; see `dynascope.geometry.Eigenpairs`."""

    values: np.ndarray
    vectors: Float[Tensor, "k n"]
    residuals: np.ndarray
    errors: np.ndarray
    angles: np.ndarray
    converged: np.ndarray
    missed: float
    products: int
    subspace: Float[Tensor, "s n"]
    """The k vectors and the next one: a start for the search at a neighboring point."""


class _Ritz(NamedTuple):
    """The leading pairs of a basis, best first, the rival last."""

    values: np.ndarray
    vectors: Float[Tensor, "p n"]
    images: Float[Tensor, "p n"]
    residuals: np.ndarray
    gaps: np.ndarray
    errors: np.ndarray
    excess: np.ndarray
    """How many times larger each pair's error is than is allowed."""
    settled: bool


def extreme_pairs(
    product: Product, start: Float[Tensor, "s n"], aim: Aim, generator: torch.Generator | None = None
) -> Eigenpairs:
    """Search from the rows of `start` for k pairs and their rival, then check the remaining space.

    Args:
        product: v -> Av, for a symmetric operator A.
        start: The vectors to start from, `(s, n)`.
        aim: The wanted pairs and their tolerance.
        generator: Draws random directions, on the host.

    Returns:
        The eigenpairs with their errors.
    """
    return _Search(product, start, aim, generator).run()


class _Search:
    """The state of the search: its basis, and the bounds known so far."""

    def __init__(self, product: Product, start: Tensor, aim: Aim, generator: torch.Generator | None) -> None:
        self.aim, self.generator = aim, generator
        begun, self.dimension = start.shape
        self.begun = begun
        self.pairs = min(aim.k + 1, self.dimension)
        self.capacity = min(self.dimension, max(4 * self.pairs, 8 if begun >= self.pairs else 16))
        self.numbers = torch.finfo(start.dtype)
        self.product = product
        rows = torch.linalg.qr(start.T)[0].T.contiguous()
        images = torch.stack([product(row) for row in rows])
        self.scale = power_of_two(float(images.abs().max()))
        images = images / self.scale
        self.norm = float(torch.linalg.norm(images, dim=1).max())
        self.products = begun
        self.size = begun
        room = max(self.capacity, begun)
        self.vectors = torch.zeros(room, self.dimension, dtype=start.dtype, device=start.device)
        self.images = torch.zeros_like(self.vectors)
        self.matrix = np.zeros((room, room))
        self.vectors[:begun], self.images[:begun] = rows, images
        matrix = _numpy(rows @ images.T)
        self.matrix[:begun, :begun] = (matrix + matrix.T) / 2
        self.floor, self.best, self.since = self._rounding(ROUNDING), math.inf, 0
        self.checks = 0
        self.ritz = self._rayleigh_ritz()
        self.remainder = self._begin() if aim.checked else None

    def run(self) -> Eigenpairs:
        while self._goes_on():
            remainder = self.remainder
            if remainder is not None and self._done() and remainder.found is None:
                remainder.learn(self._multiply(remainder.vector))
            else:
                vector = self._direction()
                self._learn(vector, self._multiply(vector))
        return self._result()

    def _multiply(self, vector: Tensor) -> Tensor:
        image = self.product(vector)
        if self.norm == 0:  # all images so far are zero, whatever the scale
            self.scale = power_of_two(float(image.abs().max()))
        image = image / self.scale
        self.norm = max(self.norm, float(torch.linalg.norm(image)))
        self.products += 1
        return image

    def _done(self) -> bool:
        return self.ritz.settled and self.products > self.begun

    def _goes_on(self) -> bool:
        wanted = not self._done()
        if self.aim.checked:
            wanted = wanted or self.remainder is None or not self.remainder.clear[NEEDED]
        finite = bool(np.all(np.isfinite(self.ritz.residuals)))  # a model that has diverged has no curvature
        return wanted and finite and self.size < self.dimension and self.products < self.aim.max_products

    def _direction(self) -> Tensor:
        ritz, used = self.ritz, self.vectors[: self.size]
        if self.remainder is not None and self.remainder.found is not None:
            wanted = self.remainder.found
        elif ritz.settled:
            wanted = self.images[self.size - 1]
        else:
            target = int(np.argmax(ritz.excess))
            wanted = ritz.images[target] - float(ritz.values[target]) * ritz.vectors[target]
        nothing = 50 * self.numbers.eps * float(np.max(np.abs(ritz.values)))
        return orthonormal(wanted, used, nothing, self._random)

    def _learn(self, vector: Tensor, image: Tensor) -> None:
        at = self.size
        self.vectors[at], self.images[at] = vector, image
        self.size += 1
        column = _numpy(self.vectors[: self.size] @ image)
        self.matrix[at, : self.size] = self.matrix[: self.size, at] = column
        self.floor = max(self.floor, self._rounding(ROUNDING))
        self.ritz = self._give_way(self._rayleigh_ritz())
        if self.capacity < self.dimension and self.size >= self.capacity:
            self._shrink(max(self.pairs, self.capacity // 2))
        if self.aim.checked:
            self.remainder = self._begin() if self._done() else None

    def _rounding(self, units: int) -> float:
        """So many units of rounding of the operator."""
        return units * self.numbers.eps * self.norm + self.numbers.tiny

    def _rounding_of(self, values: np.ndarray) -> float:
        """How far rounding moves a value, beside what its residual says."""
        largest = max(self.norm, float(np.max(np.abs(values))))  # images of other vectors may all be shorter
        return UNITS[self.aim.k > 1] * math.sqrt(1 + self.products / DRIFT) * self.numbers.eps * largest

    def _give_way(self, ritz: _Ritz) -> _Ritz:
        """The pairs, settled if no error is halved for long and the residuals are near rounding: this is how far they
        get. Products are sums, whose rounding is larger than that of one number."""
        worst, reached = np.max(ritz.excess), 1.5 * float(np.max(ritz.residuals[: self.aim.k]))
        halved = worst < self.best / 2
        self.best, self.since = (worst, 0) if halved else (self.best, self.since + 1)
        if self.since < PATIENCE or not reached <= self._rounding(MOST_ROUNDING):
            return ritz
        self.floor, self.best = max(self.floor, reached), math.inf
        return ritz._replace(settled=True)

    def _begin(self) -> Remainder:
        pairs = self.ritz.vectors[: self.aim.k]
        self.checks += self._done()
        sides = 1 if self.aim.which == "largest" else 2
        return Remainder(self._random(), pairs, self._levels(), sides, max(1, self.checks))

    def _random(self) -> Tensor:
        like = self.vectors
        drawn = torch.randn(self.dimension, dtype=like.dtype, generator=self.generator, device="cpu")
        return drawn.to(like.device)

    def _leading(self, count: int) -> tuple[np.ndarray, Tensor, Tensor]:
        """The best values, their unit vectors and the images of those."""
        if not np.all(np.isfinite(self.matrix)):
            count = min(count, self.size)
            return np.full(count, np.nan), self.vectors[:count].clone(), self.images[:count].clone()
        values, columns = np.linalg.eigh(self.matrix[: self.size, : self.size])
        order = np.argsort(-self._height(values), kind="stable")[:count]
        coefficients = torch.from_numpy(columns[:, order].T.copy()).to(self.vectors)
        vectors, images = coefficients @ self.vectors[: self.size], coefficients @ self.images[: self.size]
        squares = torch.sum(vectors**2, dim=1)  # not quite 1: with it the quotient has a digit more
        length = torch.sqrt(squares)[:, None]
        return _numpy(torch.sum(vectors * images, dim=1) / squares), vectors / length, images / length

    def _shrink(self, size: int) -> None:
        """The basis of its best Ritz vectors; no products are needed."""
        size = min(size, self.size - 1)
        values, vectors, images = self._leading(size)
        self.vectors[:size], self.images[:size], self.size = vectors, images, size
        self.matrix[:] = 0
        self.matrix[np.arange(size), np.arange(size)] = values

    def _height(self, values: np.ndarray) -> np.ndarray:
        return values if self.aim.which == "largest" else np.abs(values)

    def _rayleigh_ritz(self) -> _Ritz:
        """The best pairs of the basis, with estimates of their errors."""
        values, vectors, images = self._leading(min(self.pairs, self.size))
        count = len(values)
        weights = torch.from_numpy(values).to(vectors)
        residuals = _numpy(torch.linalg.norm(images - weights[:, None] * vectors, dim=1))
        distances = np.abs(values[:, None] - values[None, :])
        if count == self.pairs:  # what the rival stands for may lie on either side, as large as it is
            tall = self._height(values)
            distances[:, -1] = np.abs(tall - tall[-1])
        distances = distances - residuals[None, :]
        gaps = np.min(np.where(np.eye(count, dtype=bool), np.inf, distances), axis=1, initial=np.inf)
        gaps = np.where(np.isinf(gaps), 0, np.maximum(gaps, 0))
        apart = gaps > residuals
        estimates = np.where(apart, residuals**2 / np.where(apart, gaps, 1), residuals)
        rival = np.arange(count) == self.pairs - 1
        tolerance = self.aim.tolerance / 4 if self.aim.checked else self.aim.tolerance  # the check needs half the gap
        allowed = np.where(rival, RIVAL_TOLERANCE, tolerance) * np.abs(values)
        least = np.where(apart & ~rival, self._rounding(1), self.floor)
        excess = np.where(rival, residuals, estimates) / np.maximum(allowed, least)
        settled = count >= self.pairs and not np.any(excess > 1)
        errors = estimates + self._rounding_of(values)
        return _Ritz(values, vectors, images, residuals, gaps, errors, excess, bool(settled))

    def _levels(self) -> np.ndarray:
        """The levels at which the remainder is checked; the second has to be clear."""
        values = self.ritz.values[: self.aim.k]
        tall, residuals = self._height(values), self.ritz.residuals[: self.aim.k]
        wanted = self.aim.tolerance / 2 * np.abs(values)
        rounding = self.numbers.eps * self.norm + self.numbers.tiny
        close = np.maximum(wanted, 2 * self.floor)
        above = tall[-1] + close[-1] * LEVELS
        low = np.minimum(tall - residuals * (residuals / np.maximum(wanted, 2 * rounding)), above[0])
        needed = np.where(residuals > close / 2, low, above[0])
        return np.concatenate([[np.min(low), np.min(needed)], above])

    def _largest_errors(self, level: float) -> np.ndarray:
        """How far above the i-th value the i-th largest eigenvalue is at most, if the remaining space has none above
        the level; see `geometry.krylov.largest_errors`."""
        k, ritz = self.aim.k, self.ritz
        values = ritz.values[:k]
        weights = torch.from_numpy(values).to(ritz.vectors)
        left = ritz.images[:k] - weights[:, None] * ritz.vectors[:k]
        length = float(torch.linalg.norm(left))
        unit = left / (length if length > 0 else 1)
        tall, products = self._height(values), _numpy(unit @ unit.T)
        gaps = tall - level
        if not np.all(np.isfinite(gaps)):
            return np.full(k, np.inf)
        sides = (values,) if self.aim.which == "largest" else (values, -values)

        def error(i: int, width: float) -> float:
            raised = products * (length * (length / width if width > 0 else 0))
            found = [np.linalg.eigvalsh(np.diag(side - tall[i]) + raised) for side in sides]
            bound = max(np.sort(np.concatenate(found))[-1 - i], width - gaps[i], 0)
            return float(bound) if width > 0 or length == 0 else math.inf

        allowed = self.aim.tolerance / 4 * np.abs(values)
        widths = np.maximum(gaps, 0), ritz.residuals[:k], np.full(k, length), allowed
        return np.array([min(error(i, width[i]) for width in widths) for i in range(k)])

    def _result(self) -> Eigenpairs:
        k, ritz = self.aim.k, self.ritz
        rounding = self._rounding_of(ritz.values)
        values, residuals, errors = ritz.values[:k], ritz.residuals[:k], ritz.errors[:k]
        whole = self.size == self.dimension
        missed = 0.0 if whole else 1.0
        if self.remainder is not None and not whole:
            lowest = math.inf
            if self._done() and np.any(self.remainder.clear):
                missed, lowest = MISSED, self.remainder.levels[np.argmax(self.remainder.clear)]
            errors = self._largest_errors(lowest) + (rounding if self.norm > 0 else 0)
        elif self.aim.checked and not whole:
            errors = np.full_like(errors, np.inf)
        angles = np.minimum(1, residuals / np.maximum(np.maximum(ritz.gaps[:k], residuals), self.numbers.tiny))
        within = np.isfinite(errors) & np.isfinite(values) & (errors <= self.aim.tolerance * np.abs(values))
        scale = self.scale
        return Eigenpairs(
            scale * values,
            ritz.vectors[:k],
            scale * residuals,
            scale * errors,
            np.where(residuals > 0, angles, 0),
            within,
            missed,
            self.products,
            ritz.vectors,
        )


def orthonormal(direction: Tensor, rows: Tensor, nothing: float, instead: Callable[[], Tensor]) -> Tensor:
    """The direction made orthogonal to the rows and of unit length; `instead` if no more than `nothing` is left."""

    def project_out(vector: Tensor) -> Tensor:
        return vector - (rows @ vector) @ rows

    def unit(vector: Tensor) -> Tensor:
        return vector / torch.clamp(torch.linalg.norm(vector), min=torch.finfo(vector.dtype).tiny)

    left = project_out(direction)
    if not torch.linalg.norm(left) > nothing:
        left = instead()
    return unit(project_out(unit(project_out(unit(left)))))


def power_of_two(size: float) -> float:
    """The next larger power of two; 1 for zero and for values that are not finite."""
    if not (size > 0 and math.isfinite(size)):
        return 1.0
    exponent = math.frexp(size)[1]
    return math.ldexp(1.0, exponent) if exponent < 1024 else 1.0


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()
