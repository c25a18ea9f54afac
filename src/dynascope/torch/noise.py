"""How much the gradients of minibatches differ, and the curvature that steps of SGD meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from dynascope import checks
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Probe, probe
from dynascope.torch.data import take_rows
from dynascope.torch.snapshot import Snapshot


def gradient_noise(*, rows: int = 1, every: Every = None) -> Probe:
    """The gradient noise scale tr Σ / |G|² of the data: the batch size at which noise and gradient are equally large.

    The loss must be a mean over rows. A recording takes a gradient of every group of rows.

    Args:
        rows: Rows in a group. Larger groups are cheaper and estimate the noise less precisely.
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with scalar values; further entries: `error`, its standard error; `variance` (tr Σ) and `squared_norm`
        (|G|² without the bias that noise adds). The scale is NaN if the gradient cannot be told apart from noise.
    """
    checks.whole("rows", rows, at_least=1)

    def measure(snapshot: Snapshot) -> Mapping[str, Any]:
        objective = snapshot.objective
        if 2 * rows > objective.count:
            raise ValueError(f"data must have at least 2 groups of {rows} rows; got {objective.count} rows")
        count = objective.count // rows
        used = take_rows(objective.data, slice(0, count * rows), objective.device)
        mean = objective.gradient(used)
        squares, along = np.empty(count), np.empty(count)
        for i in range(count):
            group = take_rows(used, slice(i * rows, (i + 1) * rows), objective.device)
            apart = objective.gradient(group) - mean
            squares[i], along[i] = float(apart @ apart), float(apart @ mean)
        variance = squares.sum() / (count - 1)
        squared_norm = float(mean @ mean) - variance / count
        scale = rows * variance / squared_norm if squared_norm > 0 else np.nan
        influence = (rows * (squares * count / (count - 1) - variance) - 2 * scale * along) / squared_norm
        error = influence.std(ddof=1) / np.sqrt(count)
        return {"value": scale, "error": error, "variance": rows * variance, "squared_norm": squared_norm}

    return describe_probe(probe(measure, every=every), "gradient_noise")


def batch_sharpness(batch: int, *, draws: int = 16, seed: int = 0, every: Every = None) -> Probe:
    """The curvature of a batch's loss along its own gradient: E[g·Hg] / E[|g|²] over random batches.

    SGD at its edge of stability holds it near 2 / learning rate (Andreyev & Beneventano 2024).

    Args:
        batch: Rows in a batch, drawn without replacement.
        draws: How many batches a recording draws.
        seed: Seed of the draws.
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with scalar values; further entry: `error`, its standard error.
    """
    checks.whole("batch", batch, at_least=1)
    checks.whole("draws", draws, at_least=2)
    checks.whole("seed", seed, at_least=0, at_most=2**32 - 1)

    def measure(snapshot: Snapshot) -> Mapping[str, Any]:
        objective = snapshot.objective
        checks.whole("batch", batch, at_most=objective.count)
        generator = torch.Generator("cpu").manual_seed(seed * 2**20 + snapshot.step)
        curvatures, squares = np.empty(draws), np.empty(draws)
        for i in range(draws):
            chosen = torch.randperm(objective.count, generator=generator, device="cpu")[:batch]
            gradient, product = objective.linearize(take_rows(objective.data, chosen, objective.device))
            curvatures[i], squares[i] = float(gradient @ product(gradient)), float(gradient @ gradient)
        size = squares.mean()
        value = curvatures.mean() / size if size > 0 else np.nan
        error = (curvatures - value * squares).std(ddof=1) / (size or np.nan) / np.sqrt(draws)
        return {"value": value, "error": error}

    return describe_probe(probe(measure, every=every), "batch_sharpness")
