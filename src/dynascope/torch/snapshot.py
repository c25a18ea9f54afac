"""The state of a PyTorch training, as a probe sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from dynascope.torch.data import Data
from dynascope.torch.objective import Objective

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model at one step of its training."""

    model: torch.nn.Module
    """The model itself, in the mode in which it is measured."""
    step: int
    """The number of steps taken."""
    objective: Objective
    """The loss in the parameters that are measured: its value, gradient, and products with its Hessian."""
    optimizer: torch.optim.Optimizer | None = None
    """The optimizer, if it was given."""
    last: torch.nn.Module | None = None
    """The model at the end of the training, if it is known."""

    kept: dict[Any, Any] = field(default_factory=dict)
    """Values that several probes need, computed once; see `once`."""

    @property
    def data(self) -> Data:
        """The data that the loss is evaluated on."""
        return self.objective.data

    def loss(self) -> Tensor:
        """The loss on all the data, a scalar."""
        return self.objective()

    def once(self, key: Any, compute: Callable[[], Value]) -> Value:
        """The value of `compute`, computed at the first call.

        Args:
            key: Its name among all values that probes keep.
            compute: A function without arguments.

        Returns:
            The value.
        """
        if key not in self.kept:
            self.kept[key] = compute()
        return self.kept[key]

    def features(self, modules: list[str], model: torch.nn.Module | None = None) -> dict[str, Tensor]:
        """The outputs of modules for all the data, `(rows, ...)` each, on the host.

        Modules that are not evaluated are left out, and those whose outputs are not along the rows of the data.

        Args:
            modules: Names of modules, as in `model.named_modules()`.
            model: The model. Default: that of the snapshot.

        Returns:
            The outputs by module name.
        """
        if model is None:
            return self.once(("features", tuple(modules)), lambda: self._features(modules, self.model))
        return self._features(modules, model)

    def _features(self, modules: list[str], model: torch.nn.Module) -> dict[str, Tensor]:
        named = dict(model.named_modules())
        collected: dict[str, list[Tensor]] = {name: [] for name in modules}
        with contextlib.ExitStack() as stack:
            for name in modules:
                stack.callback(named[name].register_forward_hook(_collect(collected[name])).remove)
            self.objective.forward(model)
        count = self.objective.count
        along = {name: parts for name, parts in collected.items() if parts and all(part.ndim > 0 for part in parts)}
        found = {name: joined for name, parts in along.items() if len(joined := torch.cat(parts)) % count == 0}
        if not found:
            raise ValueError(f"modules must give one output for each row of the data; {modules[0]} does not")
        return found


def _collect(parts: list[Tensor]) -> Callable[[torch.nn.Module, Any, Any], None]:
    def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
        found = first_tensor(output)
        if found is not None:
            dtype = torch.float32 if found.dtype.itemsize < 4 else found.dtype
            parts.append(found.detach().to("cpu", dtype, copy=True))  # the next module may write into it

    return hook


def first_tensor(output: Any) -> Tensor | None:
    """The first tensor in a module's output, which may be a tuple or a mapping."""
    if isinstance(output, Tensor):
        return output
    values = output.values() if hasattr(output, "values") else output if isinstance(output, tuple | list) else ()
    return next((found for value in values if (found := first_tensor(value)) is not None), None)
