"""The loss of a module as a function of one vector of its parameters: value, gradient, products with the Hessian."""

from __future__ import annotations

import fnmatch
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call

from dynascope import checks
from dynascope.torch.data import Data, as_tensors, count_rows, split_rows, take_rows
from dynascope.torch.undisturbed import in_mode, kept_random_states

Loss = str | Callable[..., Any] | None
"""How the loss comes from a model and a batch; see `Watch`."""
Only = str | Sequence[str] | Callable[[str, Tensor], bool] | None
"""Which parameters are measured: patterns of names such as "*.lora_*", or a function of name and tensor."""
Vector = Float[Tensor, " n"]
Product = Callable[[Vector], Vector]


def mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean of the squared errors over all examples and outputs; (n, 1) and (n,) go together."""
    if targets.shape not in (outputs.shape, (*outputs.shape, 1)) and outputs.shape != (*targets.shape, 1):
        got = f"{tuple(outputs.shape)} and {tuple(targets.shape)}"
        raise ValueError(f"outputs and targets must have one shape, but for a last axis of length 1; got {got}")
    return torch.mean((outputs.reshape(targets.shape) - targets) ** 2)


CRITERIA: dict[str, Callable[..., Tensor]] = {
    "mse": mean_squared_error,
    "cross-entropy": torch.nn.functional.cross_entropy,
}


class Objective:
    """A loss on fixed data, a mean over rows, and the parameters in which it is differentiated.

    It is one function: if a loss is random, as with dropout, every evaluation draws the same numbers.

    Args:
        model: The module.
        loss: How the loss comes from the model and data; see `Watch`.
        data: The data, one row for each example.
        only: Which parameters; see `Watch`.
        rows: Rows of the data that are evaluated at a time. Default: all.
    """

    def __init__(
        self, model: torch.nn.Module, loss: Loss, data: Data, *, only: Only = None, rows: int | None = None
    ) -> None:
        self.model = unwrap(model)
        self.names = _select(self.model, only)
        if any(parameter.is_meta for parameter in self.parameters):
            raise ValueError("model must hold numbers; its parameters are on the device meta")
        self.size = sum(parameter.numel() for parameter in self.parameters)
        self.data = as_tensors(data)
        self.count = count_rows(self.data)
        self.rows = None if rows is None else checks.whole("rows", rows, at_least=1)
        self._loss = _ModelLoss(self.model, make_loss(loss))
        own = "the model's own" if loss is None else getattr(loss, "__name__", type(loss).__name__)
        self.loss_name = loss if isinstance(loss, str) else own

    def use(self, model: torch.nn.Module) -> None:
        """Continue with another module that has the same parameters.

        Args:
            model: The module.
        """
        model = unwrap(model)
        names = {name for name, _ in model.named_parameters()}
        if lacking := [name for name in self.names if name not in names]:
            raise ValueError(f"model must have the parameters that are measured; {lacking[0]} is missing")
        self.model = model
        self._loss = _ModelLoss(model, self._loss.loss)

    @property
    def parameters(self) -> list[Tensor]:
        """The current parameters, sharing memory with those of the model."""
        now = dict(self.model.named_parameters())
        return [now[name].detach() for name in self.names]

    @property
    def device(self) -> torch.device:
        return self.parameters[0].device

    @property
    def dtype(self) -> torch.dtype:
        """Sums are at least in single precision."""
        double = any(parameter.dtype == torch.float64 for parameter in self.parameters)
        return torch.float64 if double else torch.float32

    def __call__(self, batch: Data = None) -> Tensor:
        """The loss on all the data, or on a batch."""
        with torch.no_grad():
            return self._mean(batch, lambda part: self._value(part).to(self.dtype))

    def check(self) -> None:
        """Evaluate the loss on a few rows, so that its errors are raised before the training begins."""
        few = min(self.count, 2 if self.rows is None else 8)

        def on(rows: slice) -> float:
            return float(self(take_rows(self.data, rows, self.device)))

        if self.rows is None:
            on(slice(0, few))
            return
        kept, self.rows = self.rows, None
        try:
            with in_mode(self.model, training=False):
                whole, again = on(slice(0, few)), on(slice(0, few))
                mean = sum(on(slice(i, i + 1)) for i in range(few)) / few
        finally:
            self.rows = kept
        half = max(torch.finfo(parameter.dtype).eps for parameter in self.parameters) ** 0.5
        if whole == again and not abs(whole - mean) <= half * abs(mean):
            raise ValueError(
                f"loss must be a mean over rows if rows= evaluates the data in parts; on {few} rows it is {whole:.6g}, "
                f"the mean of its values on each is {mean:.6g}"
            )

    def describe(self) -> dict[str, Any]:
        """The loss, the rows of data and the number of parameters, for the reader of a stored observation."""
        return {"loss": self.loss_name, "rows": self.count, "parameters": self.size}

    @property
    def device_name(self) -> str:
        """The device in words."""
        if self.device.type == "cuda":
            return f"cuda ({torch.cuda.get_device_name(self.device)})"
        return f"{self.device.type} ({platform.machine()}, {platform.system()})"

    def forward(self, model: torch.nn.Module) -> None:
        """Evaluate a model on all the data, for the outputs of its modules.

        Args:
            model: The model, or another one of its architecture.
        """
        loss = _ModelLoss(model, self._loss.loss)
        with torch.no_grad():
            self._mean(None, lambda part: loss(part).to(self.dtype))

    def gradient(self, batch: Data = None) -> Vector:
        """The gradient of the loss, `(n,)`.

        Args:
            batch: Some rows of data. Default: all.
        """

        def on(part: Data) -> Vector:
            values = self._leaves()
            return self._join(_gradients(self._value(part, values), values))

        return self._mean(batch, on)

    def linearize(self, batch: Data = None) -> tuple[Vector, Product]:
        """The gradient, and products with the Hessian.

        The graph of the gradient is kept for all products if the data are one part, else made anew for each.

        Args:
            batch: Some rows of data. Default: all.

        Returns:
            The gradient `(n,)`, and a function v -> Hv.
        """
        rows = count_rows(self.data if batch is None else batch)
        if self.rows is not None and rows > self.rows:
            return self.gradient(batch), lambda vector: self._mean(batch, self._product_on(vector))
        with kept_random_states(self.model):
            values = self._leaves()
            part = take_rows(self.data if batch is None else batch, slice(0, rows), self.device)
            gradients = _gradients(self._value(part, values), values, again=True)
        gradient = self._join(gradients).detach()
        return gradient, lambda vector: self._join(_along(values, gradients, self._split(vector)))

    def _product_on(self, vector: Vector) -> Callable[[Data], Vector]:
        """The product of the Hessian on a part of the data with a vector."""
        directions = self._split(vector)

        def on(part: Data) -> Vector:
            values = self._leaves()
            gradients = _gradients(self._value(part, values), values, again=True)
            return self._join(_along(values, gradients, directions))

        return on

    def _mean(self, batch: Data, on: Callable[[Data], Tensor]) -> Tensor:
        """The mean over rows of the values of a function on each part of the data."""
        total = torch.zeros((), dtype=self.dtype, device=self.device)
        with kept_random_states(self.model):
            for share, part in split_rows(self.data if batch is None else batch, self.rows, self.device):
                total = total + share * on(part)
        return total

    def _leaves(self) -> dict[str, Tensor]:
        return {name: parameter.requires_grad_() for name, parameter in zip(self.names, self.parameters, strict=True)}

    def _value(self, batch: Data, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """The loss with these values of the parameters that are measured; it is not differentiated in others."""
        constant = {name: parameter.detach() for name, parameter in self.model.named_parameters()}
        used = {f"model.{name}": value for name, value in (constant | dict(values or {})).items()}
        return functional_call(self._loss, used, (batch,))

    def _join(self, tensors: Sequence[Tensor]) -> Vector:
        return torch.cat([tensor.to_dense().reshape(-1).to(self.device, self.dtype) for tensor in tensors])

    def _split(self, vector: Vector) -> list[Tensor]:
        parameters = self.parameters
        parts = torch.split(vector, [parameter.numel() for parameter in parameters])
        return [part.view(own.shape).to(own.device, own.dtype) for part, own in zip(parts, parameters, strict=True)]


class _ModelLoss(torch.nn.Module):
    """The loss as a module, so that parameters can be replaced inside of it."""

    def __init__(self, model: torch.nn.Module, loss: Callable[[torch.nn.Module, Data], Any]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Data) -> Tensor:
        value = self.loss(self.model, batch)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ValueError(f"loss must return a scalar tensor; got {checks.shown(value)}")
        return value.reshape(())


def make_loss(loss: Loss) -> Callable[[torch.nn.Module, Data], Any]:
    """`loss(model, batch)` for the loss that a user gave."""
    if loss is None:
        return _own_loss
    if isinstance(loss, str):
        return _by_criterion(CRITERIA[checks.one_of("loss", loss, tuple(CRITERIA))])
    checks.function("loss", loss, "loss(model, batch)")
    home = getattr(getattr(loss, "func", loss), "__module__", "") or ""  # inside of functools.partial
    builtin = home == "torch" or home.startswith(("torch.nn", "torch._C"))
    return _by_criterion(loss) if builtin or isinstance(loss, torch.nn.Module) else loss


def _own_loss(model: torch.nn.Module, batch: Data) -> Any:
    found = model(**batch) if isinstance(batch, Mapping) else None
    loss = getattr(found, "loss", None)
    if loss is None:
        raise ValueError(
            'loss must be given, unless the model returns one with model(**data).loss: "mse", for instance'
        )
    return loss


def _by_criterion(criterion: Callable[..., Any]) -> Callable[[torch.nn.Module, Data], Any]:
    def loss(model: torch.nn.Module, batch: Data) -> Any:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise ValueError("data must be (inputs, targets), unless loss is a function loss(model, batch)")
        return criterion(model(batch[0]), batch[1])

    return loss


def unwrap(model: Any) -> torch.nn.Module:
    """The module inside of `torch.compile` and of the wrappers for several devices."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module; got {checks.shown(model)}")
    wrappers = torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel
    while True:
        inside = getattr(model, "_orig_mod", None) or (model.module if isinstance(model, wrappers) else None)
        if not isinstance(inside, torch.nn.Module):
            return model
        model = inside


def unwrap_optimizer(optimizer: Any) -> torch.optim.Optimizer:
    """The optimizer inside of a trainer's own object."""
    while not isinstance(optimizer, torch.optim.Optimizer) or type(optimizer).__name__ == "AcceleratedOptimizer":
        inside = getattr(optimizer, "optimizer", None)
        if inside is None:
            raise TypeError(f"optimizer must be a torch.optim.Optimizer; got {checks.shown(optimizer)}")
        optimizer = inside
    return optimizer


def _select(model: torch.nn.Module, only: Only) -> list[str]:
    """The names of the parameters to measure."""
    trained = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.is_floating_point()
    }
    if not trained:
        raise ValueError("model must have a parameter that requires a gradient; got none")
    if only is None:
        return list(trained)
    if not isinstance(only, str) and callable(only):
        names = [name for name, parameter in trained.items() if only(name, parameter)]
    else:
        patterns = checks.texts("only", only, "patterns of names, or a function of name and tensor")
        names = [name for name in trained if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if not names:
        first = ", ".join(list(trained)[:3])
        raise ValueError(f"only must match a parameter that requires a gradient, such as {first}; got {only!r}")
    return names


def _gradients(value: Tensor, values: Mapping[str, Tensor], again: bool = False) -> list[Tensor]:
    if not value.requires_grad:
        raise ValueError(
            "loss must have a gradient in the parameters that are measured; it has none (no_grad, detach, or a "
            "checkpoint with use_reentrant=True?)"
        )
    found = torch.autograd.grad(
        value, list(values.values()), create_graph=again, allow_unused=True, materialize_grads=True
    )
    return list(found)


def _along(values: Mapping[str, Tensor], gradients: list[Tensor], directions: list[Tensor]) -> list[Tensor]:
    """The derivative of the gradient's component along the directions."""
    kept = [(g, d) for g, d in zip(gradients, directions, strict=True) if g.requires_grad]
    if not kept:
        return [torch.zeros_like(leaf) for leaf in values.values()]
    found = torch.autograd.grad(
        [g for g, _ in kept],
        list(values.values()),
        [d for _, d in kept],
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return list(found)
