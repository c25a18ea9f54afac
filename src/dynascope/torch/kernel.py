"""The tangent kernel of a PyTorch model on some examples: its norm, and how far it has moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from dynascope import checks
from dynascope.geometry.kernel_spectrum import Convention, slope
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Probe, probe
from dynascope.torch.data import Data, as_tensors, count_rows, map_leaves, take_rows
from dynascope.torch.snapshot import Snapshot
from dynascope.torch.undisturbed import in_mode

Apply = Callable[[torch.nn.Module, Data], Tensor]
"""`apply(model, x)`: the outputs on a batch of examples, `(n, ...)`."""
BUDGET = 2**28
"""Numbers of the Jacobian that are held at a time."""


def kernel_norm(
    x: Data = None, *, apply: Apply | None = None, convention: Convention = "mse", every: Every = None
) -> Probe:
    """||K||, the largest eigenvalue of the tangent kernel, and the critical learning rate that it gives.

    Args:
        x: The examples. Default: the inputs of the data, the first of (x, y).
        apply: `apply(model, x)`, the outputs on a batch, `(n, ...)`. Default: `model(x)`.
        convention: "mse" if the loss is the mean of (f - y)^2 over all entries, "sum" if it is half their sum.
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with scalar values; further entry: `critical_rate`.
    """
    checks.one_of("convention", convention, get_args(Convention))
    check_inputs(x, apply)

    def measure(snapshot: Snapshot) -> Mapping[str, Any]:
        kernel = _kernel_once(snapshot, x, apply)
        largest = float(np.linalg.eigvalsh(kernel)[-1]) if np.all(np.isfinite(kernel)) else np.nan
        scale = slope(len(kernel), convention)
        return {"value": largest, "critical_rate": 2 / (scale * largest) if largest > 0 else np.nan}

    return describe_probe(probe(measure, every=every), "kernel_norm")


def kernel_distance(x: Data = None, *, apply: Apply | None = None, every: Every = None) -> Probe:
    """||K - K0|| / ||K0|| in the spectral norm, with K0 the tangent kernel at the first recording.

    Args:
        x: The examples. Default: the inputs of the data, the first of (x, y).
        apply: `apply(model, x)`, the outputs on a batch, `(n, ...)`. Default: `model(x)`.
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with a scalar value.
    """
    check_inputs(x, apply)

    def measure(snapshot: Snapshot, start: np.ndarray) -> tuple[float, np.ndarray]:
        kernel = _kernel_once(snapshot, x, apply)
        if not np.all(np.isfinite(kernel)):
            return np.nan, start
        moved, norm = np.linalg.eigvalsh(kernel - start), np.linalg.eigvalsh(start)[-1]
        return float(np.abs(moved).max() / norm), start

    return describe_probe(
        Probe(measure, every=every, initial_state=lambda snapshot: _kernel_once(snapshot, x, apply)), "kernel_distance"
    )


def _kernel_once(snapshot: Snapshot, x: Data, apply: Apply | None) -> np.ndarray:
    return snapshot.once(("kernel", id(x), apply), lambda: tangent_kernel(snapshot, x, apply))


def tangent_kernel(snapshot: Snapshot, x: Data = None, apply: Apply | None = None) -> np.ndarray:
    """The tangent kernel as a matrix, `(n k, n k)`: J J^T, with J the derivative of all k outputs at n examples.

    Args:
        snapshot: A snapshot.
        x: The examples. Default: the inputs of the data.
        apply: `apply(model, x)`, the outputs on a batch. Default: `model(x)`.
    """
    data = inputs_of(snapshot, x)
    count, size = count_rows(data, "x"), snapshot.objective.size
    with torch.no_grad():
        first = take_rows(data, slice(0, 1), snapshot.objective.device)
        outputs = _Outputs(snapshot.objective.model, apply)(first).numel()
    width = max(1, min(count, BUDGET // (outputs * size)))
    blocks = [slice(start, min(start + width, count)) for start in range(0, count, width)]
    kernel = np.empty((count * outputs, count * outputs))

    def rows(block: slice) -> Tensor:
        return jacobian(snapshot, take_rows(data, block, snapshot.objective.device), apply)

    for i, one in enumerate(blocks):
        left = rows(one)
        for j, other in enumerate(blocks[: i + 1]):
            right = left if i == j else rows(other)
            part = (left @ right.T).cpu().double().numpy()
            at = slice(one.start * outputs, one.stop * outputs), slice(other.start * outputs, other.stop * outputs)
            kernel[at], kernel[at[::-1]] = part, part.T
    return (kernel + kernel.T) / 2


def jacobian(snapshot: Snapshot, x: Data, apply: Apply | None = None) -> Tensor:
    """The derivatives of all outputs in the parameters, `(n k, parameters)`, those of an example side by side.

    Args:
        snapshot: A snapshot.
        x: The examples, on the model's device.
        apply: `apply(model, x)`, the outputs on a batch. Default: `model(x)`.
    """
    objective = snapshot.objective
    outputs = _Outputs(objective.model, apply)
    values = dict(zip((f"model.{name}" for name in objective.names), objective.parameters, strict=True))

    def one(parameters: dict[str, Tensor], example: Data) -> Tensor:
        alone = map_leaves(lambda leaf: leaf[None], example)
        return functional_call(outputs, parameters, (alone,)).reshape(-1)

    try:
        with torch.no_grad():  # parameters that are not measured need no graph
            found = vmap(jacrev(one), (None, 0))(values, x)
        parts = [found[name].flatten(2).to(objective.dtype) for name in values]
    except RuntimeError:  # a model with branches or writes that vmap cannot follow
        rows = list(_row_by_row(values, x, one))
        parts = [torch.stack([row[name] for row in rows]).flatten(2).to(objective.dtype) for name in values]
    return torch.cat(parts, dim=2).flatten(0, 1).detach()


def _row_by_row(
    values: Mapping[str, Tensor], x: Data, one: Callable[[dict[str, Tensor], Data], Tensor]
) -> Iterator[dict[str, Tensor]]:
    """The Jacobian at one example after the other."""
    tracked = {name: value.requires_grad_() for name, value in values.items()}
    for i in range(count_rows(x, "x")):
        outputs = one(tracked, map_leaves(lambda leaf, i=i: leaf[i], x))
        rows = [
            torch.autograd.grad(
                output, list(tracked.values()), retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for output in outputs
        ]
        yield {name: torch.stack(column) for name, column in zip(tracked, zip(*rows, strict=True), strict=True)}


class _Outputs(torch.nn.Module):
    """A model's outputs in evaluation mode as a module, so that parameters can be replaced inside of it."""

    def __init__(self, model: torch.nn.Module, apply: Apply | None) -> None:
        super().__init__()
        self.model = model
        self.apply_to = apply

    def forward(self, x: Data) -> Tensor:
        with in_mode(self.model, training=False):  # examples do not mix
            return output_tensor(self.model(x) if self.apply_to is None else self.apply_to(self.model, x))


def output_tensor(found: Any) -> Tensor:
    """The outputs, which must be a tensor."""
    if not isinstance(found, Tensor) or found.ndim == 0:
        raise TypeError(
            f"the model must return a tensor (n, ...), or apply=function(model, x) do; got {checks.shown(found)}"
        )
    return found


def check_inputs(x: Data, apply: Apply | None) -> None:
    """Check the examples and the function of a probe, if they are given."""
    if x is not None:
        count_rows(as_tensors(x, "x"), "x")
    if apply is not None:
        checks.function("apply", apply, "apply(model, x)")


def inputs_of(snapshot: Snapshot, x: Data) -> Data:
    """The examples that were given, or the inputs of the data."""
    if x is not None:
        return as_tensors(x, "x")
    data = snapshot.objective.data
    if not isinstance(data, tuple | list):
        raise ValueError("x must be given, the examples for this probe, unless data is (inputs, targets)")
    return data[0]
