"""The weight matrices of a PyTorch model: ranks, singular values, norms and updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynascope import checks
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Coords, Dims, Every, Probe
from dynascope.torch.snapshot import Snapshot

Matrices = dict[str, Tensor]


def weight_ranks(*, change: bool = False, every: Every = None) -> Probe:
    """The stable and the effective rank of every weight matrix.

    Matrices are the parameters with two axes or more; axes after the first are laid end to end, as in the kernel of a
    convolution.

    Args:
        change: Whether to take the change of the weights since the first recording (NaN there).
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with the dimension `weight`, shape (weights,), whose labels are names of parameters: the stable rank,
        Σσ²/σ₁²; further entries: `effective`, exp of the entropy of the shares σ²/Σσ², and `norm`, σ₁.
    """
    checks.flags(change=change)

    def measure(snapshot: Snapshot, before: Matrices | None) -> tuple[Mapping[str, Any], Matrices | None]:
        ranks = np.array([ranks_of(values) for values in _spectra(snapshot, before)])
        return dict(zip(("value", "effective", "norm"), ranks.T, strict=True)), before

    along: Dims = ("weight",)
    dims = {"value": along, "effective": along, "norm": along}
    return describe_probe(
        Probe(measure, dims, _labels, every, _start(change)), "change of weight_ranks" if change else "weight_ranks"
    )


def singular_values(k: int, *, change: bool = False, every: Every = None) -> Probe:
    """The k largest singular values of every weight matrix.

    Args:
        k: Number of values; a matrix with fewer has NaN behind them.
        change: Whether to take the change of the weights since the first recording.
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with the dimensions `weight` and `index`, shape (weights, k).
    """
    checks.whole("k", k, at_least=1)
    checks.flags(change=change)

    def measure(snapshot: Snapshot, before: Matrices | None) -> tuple[np.ndarray, Matrices | None]:
        spectra = [values[:k] for values in _spectra(snapshot, before)]
        return np.stack([np.pad(s, (0, k - len(s)), constant_values=np.nan) for s in spectra]), before

    def labels(snapshot: Snapshot) -> Coords:
        return {**_labels(snapshot), "index": range(1, k + 1)}

    return describe_probe(Probe(measure, ("weight", "index"), labels, every, _start(change)), "singular_values")


def weight_updates(*, every: Every = None) -> Probe:
    """How far every parameter has moved since the last recording, relative to its norm.

    Args:
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with the dimension `parameter`, whose labels are names: the norm of the change over the norm (NaN at the
        first recording); further entry: `norm`.
    """

    def measure(snapshot: Snapshot, before: list[Tensor] | None) -> tuple[Mapping[str, Any], list[Tensor]]:
        now = snapshot.objective.parameters
        norms = np.array([float(torch.linalg.norm(_wide(tensor))) for tensor in now])
        moved = np.full(len(now), np.nan)
        if before is not None:
            moved = np.array([distance(new, old) for new, old in zip(now, before, strict=True)])
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = moved / norms
        return {"value": relative, "norm": norms}, [tensor.to("cpu", copy=True) for tensor in now]

    def labels(snapshot: Snapshot) -> Coords:
        return {"parameter": snapshot.objective.names}

    return describe_probe(
        Probe(measure, {"value": ("parameter",), "norm": ("parameter",)}, labels, every, lambda snapshot: None),
        "weight_updates",
    )


def ranks_of(values: np.ndarray) -> tuple[float, float, float]:
    """The stable and the effective rank from singular values, largest first, and the largest one."""
    if not values[0] > 0:
        return np.nan, np.nan, float(values[0])
    shares = (values / values[0]) ** 2
    stable = shares.sum()
    shares = shares[shares > 0] / stable
    return float(stable), float(np.exp(-np.sum(shares * np.log(shares)))), float(values[0])


def _start(change: bool):
    def start(snapshot: Snapshot) -> Matrices | None:
        return {name: matrix.to("cpu", copy=True) for name, matrix in _matrices(snapshot).items()} if change else None

    return start


def _spectra(snapshot: Snapshot, before: Matrices | None) -> list[np.ndarray]:
    """The singular values of every matrix, or of its change."""

    def compute() -> list[np.ndarray]:
        found = []
        for name, matrix in _matrices(snapshot).items():
            wide = _wide(matrix) if before is None else _wide(matrix) - _wide(before[name].to(matrix.device))
            finite = bool(torch.isfinite(wide).all())
            found.append(torch.linalg.svdvals(wide).cpu().numpy() if finite else np.full(min(wide.shape), np.nan))
        return found

    return snapshot.once(("spectra", None if before is None else id(before)), compute)


def _matrices(snapshot: Snapshot) -> Matrices:
    named = zip(snapshot.objective.names, snapshot.objective.parameters, strict=True)
    found = {name: tensor.reshape(len(tensor), -1) for name, tensor in named if tensor.ndim > 1}
    found = {name: matrix for name, matrix in found.items() if min(matrix.shape) > 1}
    if not found:
        raise ValueError("model must have a weight matrix, a parameter with two axes or more")
    return found


def _labels(snapshot: Snapshot) -> Coords:
    return {"weight": list(_matrices(snapshot))}


def distance(one: Tensor, other: Tensor) -> float:
    """The Euclidean distance, at least in single precision."""
    return float(torch.linalg.norm(_wide(one) - _wide(other.to(one.device))))


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.to(torch.float32)
