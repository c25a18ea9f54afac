"""Curvature of a PyTorch model's loss: eigenvalues of the Hessian with errors, its density."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from dynascope import checks
from dynascope.geometry.krylov import Which
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Names, Probe
from dynascope.torch.krylov import Aim, Product, extreme_pairs, orthonormal
from dynascope.torch.preconditioner import preconditioner
from dynascope.torch.snapshot import Snapshot

MIXED_IN = 0.1
"""The weight of another direction in a warm start, relative to vectors of length 1."""
CHECK_EVERY = 64
"""The check that nothing larger was missed is made at the first recording and then at every this many."""
ENTRIES = ("value", "residual", "error", "alignment", "angle")


def sharpness(
    *,
    every: Every = None,
    tolerance: float = 1e-3,
    which: Which = "largest",
    max_products: int = 100,
    preconditioned: bool = False,
) -> Probe:
    """The largest eigenvalue of the Hessian, and how the gradient is aligned with its eigenvector.

    Args:
        every: The cadence, in steps; None follows the recordings.
        tolerance: Relative error of the eigenvalue at which the search ends.
        which: "largest", or "magnitude" for the largest in size.
        max_products: The largest number of Hessian-vector products at a recording.
        preconditioned: Whether to take the Hessian in the geometry of the optimizer (Adam, AdamW, RMSprop, Adagrad),
            P^(-1/2) H P^(-1/2): with Adam it stays near (2 + 2 beta1) / ((1 - beta1) learning rate) at the edge of
            stability (Cohen et al. 2022).

    Returns:
        A probe with scalar values and the further entries `residual`, `error`, `alignment`, `angle`, `missed` and
        `products`, as `dynascope.probes.sharpness` has them.
    """
    return describe_probe(
        _follow_eigenpairs(1, every, tolerance, which, max_products, preconditioned, indexed=False),
        "preconditioned_sharpness" if preconditioned else "sharpness",
    )


def top_eigenvalues(
    k: int,
    *,
    every: Every = None,
    tolerance: float = 1e-3,
    which: Which = "largest",
    max_products: int = 200,
    preconditioned: bool = False,
) -> Probe:
    """The k largest eigenvalues of the Hessian, largest first; copies of repeated ones are found.

    Args:
        k: Number of eigenvalues.
        every: The cadence, in steps; None follows the recordings.
        tolerance: Relative error of each eigenvalue at which the search ends.
        which: "largest", or "magnitude" for the largest in size.
        max_products: The largest number of Hessian-vector products at a recording.
        preconditioned: Whether to take the Hessian in the geometry of the optimizer; see `sharpness`.

    Returns:
        A probe with the dimension `index`, shape (k,), and the entries of `sharpness`.
    """
    return describe_probe(
        _follow_eigenpairs(k, every, tolerance, which, max_products, preconditioned, indexed=True),
        "preconditioned top_eigenvalues" if preconditioned else "top_eigenvalues",
    )


def _follow_eigenpairs(
    k: int, every: Every, tolerance: float, which: str, max_products: int, preconditioned: bool, *, indexed: bool
) -> Probe:
    """Eigenpairs along a training: the state is the last subspace, kept on the host, and the number of recordings."""
    checks.whole("k", k, at_least=1)
    checks.real("tolerance", tolerance, at_least=0)
    checks.whole("max_products", max_products, at_least=1)
    checks.one_of("which", which, get_args(Which))
    checks.flags(preconditioned=preconditioned)

    def measure(snapshot: Snapshot, state: tuple[Tensor | None, int]) -> tuple[Mapping[str, Any], Any]:
        subspace, recordings = state
        gradient, product = snapshot.objective.linearize()
        checks.whole("k", k, at_most=len(gradient))
        if preconditioned:
            root = preconditioner(snapshot).rsqrt()
            gradient, product = root * gradient, _between(root, product)
        generator = torch.Generator("cpu").manual_seed(recordings + 1)
        rows = _start(gradient, subspace, k, generator)
        aim = Aim(k, which, tolerance, max_products, recordings % CHECK_EVERY == 0)
        found = extreme_pairs(product, rows, aim, generator)
        length = torch.linalg.norm(gradient)
        along = (found.vectors @ gradient).abs() / torch.where(length > 0, length, 1)
        values = found.values, found.residuals, found.errors, along.cpu().numpy(), found.angles
        each = dict(zip(ENTRIES, values if indexed else [value[0] for value in values], strict=True))
        return each | {"missed": found.missed, "products": found.products}, (found.subspace.cpu(), recordings + 1)

    dims: Names = dict.fromkeys(ENTRIES, ("index",)) if indexed else {}
    return Probe(measure, dims, {"index": range(1, k + 1)} if indexed else {}, every, lambda snapshot: (None, 0))


def _between(root: Tensor, product: Product) -> Product:
    return lambda vector: root * product(root * vector)


def _start(gradient: Tensor, subspace: Tensor | None, k: int, generator: torch.Generator) -> Tensor:
    """Random vectors; or those of the last recording, the last one mixed with the gradient and a random direction."""

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=gradient.dtype, generator=generator, device="cpu").to(gradient.device)

    if subspace is None:
        return draw(min(k + 1, len(gradient)), len(gradient))
    rows = subspace.to(gradient.device, copy=True)
    rows[-1] += MIXED_IN * _unit(_unit(gradient) + _unit(draw(len(gradient))))
    return rows


def _unit(vector: Tensor) -> Tensor:
    length = torch.linalg.norm(vector)
    return vector / torch.where(length > 0, length, 1)


def hessian_density(
    at: Any, width: float, *, every: Every = None, draws: int = 8, degree: int = 32, seed: int = 0
) -> Probe:
    """The density of the Hessian's eigenvalues, smoothed by a Gaussian, by stochastic Lanczos quadrature.

    Args:
        at: The eigenvalues at which to evaluate it, `(x,)`.
        width: The standard deviation of the Gaussian.
        every: The cadence, in steps; None follows the recordings.
        draws: Number of random vectors.
        degree: Number of Hessian-vector products for each.
        seed: Seed of the random vectors, the same at every recording.

    Returns:
        A probe with the dimension `eigenvalue`; further entry: `standard_error`.
    """
    points = np.asarray(checks.array("at", at, ndim=1), float)
    checks.real("width", width, above=0)
    checks.whole("draws", draws, at_least=2)
    checks.whole("degree", degree, at_least=1)
    checks.whole("seed", seed, at_least=0, at_most=2**32 - 1)

    def measure(snapshot: Snapshot, state: None) -> tuple[Mapping[str, Any], None]:
        _, product = snapshot.objective.linearize()
        generator = torch.Generator("cpu").manual_seed(seed)
        each = np.stack([_smoothed(*_quadrature(snapshot, product, degree, generator)) for _ in range(draws)])
        return {"value": each.mean(axis=0), "standard_error": each.std(axis=0, ddof=1) / np.sqrt(draws)}, None

    def _smoothed(nodes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        bump = np.exp(-(((points[:, None] - nodes) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
        return bump @ weights

    dims = {"value": ("eigenvalue",), "standard_error": ("eigenvalue",)}
    return describe_probe(Probe(measure, dims, {"eigenvalue": points}, every), "hessian_density")


def _quadrature(
    snapshot: Snapshot, product: Product, degree: int, generator: torch.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The nodes and weights of a Gauss quadrature for the Hessian's spectrum, from a vector of random signs."""
    size, objective = snapshot.objective.size, snapshot.objective
    eps = 10 * torch.finfo(objective.dtype).eps

    def draw() -> Tensor:
        return torch.randn(size, dtype=objective.dtype, generator=generator, device="cpu").to(objective.device)

    vector = torch.sign(draw()) / size**0.5
    degree = min(degree, size)
    basis = torch.empty(degree, size, dtype=objective.dtype, device=objective.device)
    diagonal, couplings = [], []
    for i in range(degree):
        basis[i] = vector
        image = product(vector)
        length = float(torch.linalg.norm(image))
        diagonal.append(float(vector @ image))
        vector = orthonormal(image, basis[: i + 1], eps * length, draw)
        coupling = float(vector @ image)
        couplings.append(coupling if coupling > eps * length else 0.0)
    matrix = np.diag(diagonal) + np.diag(couplings[:-1], 1) + np.diag(couplings[:-1], -1)
    nodes, vectors = np.linalg.eigh(matrix)
    return nodes, vectors[0] ** 2
