"""The sensitivity of a PyTorch model to directions of its input: the average gradient outer product."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynascope import checks
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Probe
from dynascope.torch.data import split_rows
from dynascope.torch.kernel import Apply, check_inputs, inputs_of, output_tensor
from dynascope.torch.snapshot import Snapshot
from dynascope.torch.undisturbed import in_mode


def agop_alignment(target: Any = "first", x: Any = None, *, apply: Apply | None = None, every: Every = None) -> Probe:
    """The alignment, between 0 and 1, of the average gradient outer product (AGOP) with another one.

    AGOP is G = 1/n Σᵢ J(xᵢ)ᵀ J(xᵢ), with J the derivative of the outputs in the input.

    Args:
        target: A matrix `(d, d)` to compare with; or "first" or "previous", the AGOP of another recording.
        x: The examples, `(n, ...)` with d numbers each. Default: the inputs of the data.
        apply: `apply(model, x)`, the outputs on a batch. Default: `model(x)`.
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with a scalar value.
    """
    check_inputs(x, apply)
    if isinstance(target, str):
        checks.one_of("target", target, ("first", "previous"))
    elif (matrix := checks.array("target", target, ndim=2)).shape[0] != matrix.shape[1]:
        raise ValueError(f"target must be a square matrix; got {checks.shown(target)}")

    def start(snapshot: Snapshot) -> Tensor:
        if isinstance(target, str):
            return gradient_rows(snapshot, x, apply)
        values, vectors = np.linalg.eigh(np.asarray(target, float))  # a sum of outer products, as the others are
        return torch.from_numpy(np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T)

    def measure(snapshot: Snapshot, other: Tensor) -> tuple[float, Tensor]:
        rows = gradient_rows(snapshot, x, apply)
        if rows.shape[1] != other.shape[1]:
            raise ValueError(f"target must be over inputs of {rows.shape[1]} numbers; got {other.shape[1]}")
        lengths = _inner(rows, rows) ** 0.5 * _inner(other, other) ** 0.5
        keeps_first = not isinstance(target, str) or target == "first"
        return _inner(rows, other) / lengths if lengths > 0 else 0.0, other if keeps_first else rows

    return describe_probe(Probe(measure, every=every, initial_state=start), "agop_alignment")


def gradient_rows(snapshot: Snapshot, x: Any = None, apply: Apply | None = None) -> Tensor:
    """The derivatives of all outputs in the input, `(n k, d)`, on the host: AGOP is rowsᵀ rows / n."""
    inputs = inputs_of(snapshot, x)
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        raise TypeError("agop_alignment needs inputs of floating-point numbers; give x=, embeddings for instance")
    objective = snapshot.objective

    def rows_of(part: Tensor) -> Tensor:
        points = part.clone().requires_grad_()
        with in_mode(snapshot.model, training=False):
            found = snapshot.model(points) if apply is None else apply(snapshot.model, points)
        # examples do not mix, so that one derivative serves all of them
        columns = [
            torch.autograd.grad(column.sum(), points, retain_graph=True, materialize_grads=True, allow_unused=True)[0]
            for column in output_tensor(found).flatten(1).unbind(1)
        ]
        return torch.stack(columns, dim=1).reshape(-1, points[0].numel()).detach().cpu().double()

    return torch.cat([rows_of(part) for _, part in split_rows(inputs, objective.rows, objective.device)])


def _inner(one: Tensor, other: Tensor) -> float:
    """tr(G H) of two sums of outer products."""
    if one.shape[1] <= min(len(one), len(other)):
        return float(((one.T @ one) * (other.T @ other)).sum())
    return float((one @ other.T).square().sum())
