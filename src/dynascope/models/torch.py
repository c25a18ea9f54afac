"""PyTorch modules as models, and their trained weights back into PyTorch."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from dynascope import checks
from dynascope.models.frozen import Frozen

MEASURE = "measure the module without conversion, by dynascope.torch"


class _Program:
    """A module without its weights. Copies with the same parts are equal, so one compilation serves all of them."""

    def __init__(self, module: Any) -> None:
        self.module = copy.deepcopy(module).eval().to("meta")
        facts = io.BytesIO()
        try:
            _Facts(facts).dump(self.module)
            self._facts: Any = facts.getvalue()
        except Exception:  # a part that cannot be compared, such as a lock: the program equals itself alone
            self._facts = id(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and self._facts == other._facts

    def __hash__(self) -> int:
        return hash(self._facts)


class _Facts(pickle.Pickler):
    """Writes what a module consists of.

    Classes and functions are told apart by what they are, not by their names: those of a notebook may have been defined
    again, and local ones have no address.
    """

    def persistent_id(self, part: Any) -> str | None:
        if isinstance(part, type):
            return f"class {id(part)}"
        if isinstance(part, FunctionType):
            plain = not (part.__closure__ or part.__defaults__ or part.__kwdefaults__)
            return f"code {id(part.__code__)}" if plain else f"function {id(part)}"
        return None


class TorchModel(eqx.Module):
    """A PyTorch module on one example: x (*shape) without the batch axis, as every model here; `jax.vmap` for more.

    It computes what the module does in evaluation mode: dropout does nothing, and batch normalization uses the
    averages stored in it. Whatever PyTorch's default device or precision, arrays are JAX's, float32 unless x64 is on.
    """

    parameters: dict[str, Float[Array, ...]]
    """The trained arrays, by the names of `module.named_parameters()`. Tied weights are one array, by their first
    name."""
    fixed: Frozen
    """The others by name: buffers, and the parameters without `requires_grad`."""
    program: _Program = eqx.field(static=True)
    """A copy of the module without its weights."""
    places: tuple[tuple[str, str], ...] = eqx.field(static=True)
    """Every place of a tensor in the module, with the name its array goes by: a tied weight has several places."""

    def __call__(self, x: Shaped[Array, ...]) -> Float[Array, ...]:
        """Arrays (*shape) to (*out). What cannot be converted is a ValueError of one line that names it."""
        return _traced(self, jnp.asarray(x))

    def _convert(self, x: Shaped[Array, ...]) -> Float[Array, ...]:
        """The call itself, by running the module's own program on JAX's arrays."""
        tensor, torch2jax = _torch_tensor(), _package("torch2jax")
        module = copy.deepcopy(self.program.module)
        values = {name: tensor.Tensor(value) for name, value in self.values().items()}
        for place, name in self.places:
            path, _, leaf = place.rpartition(".")
            owner = module.get_submodule(path)
            (owner._parameters if leaf in owner._parameters else owner._buffers)[leaf] = values[name]

        try:
            with jax.numpy_dtype_promotion("standard"):
                return torch2jax.t2j(partial(tensor.apply, module))(x[None])[0]
        except Exception as error:
            reason = tensor.first_line(error)
            if isinstance(error, jax.errors.ConcretizationTypeError):
                reason = "its program depends on the values of arrays, not on their shapes alone"
            elif isinstance(error, AttributeError) and isinstance(error.obj, tensor.Tensor):
                reason = f"torch.Tensor.{error.name} has no counterpart in JAX"
            way = f"register one with ds.models.register_torch_function, or {MEASURE}"
            reason += f"; {way if 'has no counterpart' in reason else MEASURE}"
            raise ValueError(f"cannot convert {type(self.program.module).__name__}: {reason}") from error

    def values(self) -> dict[str, Shaped[Array, ...]]:
        """All arrays by name, trained or not."""
        return {**self.parameters, **self.fixed.value()}

    def with_state_dict(self, state: Mapping[str, Any]) -> TorchModel:
        """The same model with other weights. Nothing is compiled again.

        Args:
            state: The state dict of a module of the same architecture, such as `torch.load(path)` gives.
        """
        named = dict(self.places)
        found = {named[place]: _array(value) for place, value in state.items() if place in named}
        if lacking := sorted(self.values().keys() - found.keys()) or sorted(state.keys() - named.keys()):
            where = "missing" if lacking[0] not in state else "no tensor of the model"
            raise ValueError(f"state must be a state dict of the model's architecture; {lacking[0]} is {where}")
        for name, value in self.values().items():
            if found[name].shape != value.shape:
                raise ValueError(f"{name} is {found[name].shape} in the state dict and {value.shape} in the model")
        parameters = {name: found.pop(name) for name in self.parameters}
        return TorchModel(parameters, Frozen(found), self.program, self.places)


_jit: Callable[..., Any] = eqx.filter_jit  # it hands further options to jax.jit
_traced = _jit(TorchModel._convert, inline=True)
"""The module's program runs once for each shape, also under several derivatives and in several programs."""


def from_torch(module: Any, example: Any = None) -> TorchModel:
    """A `torch.nn.Module` as a model: its weights in JAX, its program converted by torch2jax.

    The model works under `jit`, `vmap`, `grad` and their compositions, so it trains by `ds.descend`, and is probed,
    like any other. Needs `pip install 'dynascope[torch]'`. Operations are converted when the model is first called;
    `register_torch_function` adds one, and `dynascope.torch` measures modules without conversion. The output of a model
    of transformers is its `logits`. A copy of a module, or another one with the same parts, is not compiled again.

    Args:
        module: The module; it is left as it is.
        example: One input without the batch axis. If given, the model is called at once and compared with the module.

    Raises:
        ValueError: If an operation cannot be converted, or the outputs differ.
    """
    torch = _package("torch")
    _torch_tensor()
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module is wrong: from_torch takes a torch.nn.Module; got a {type(module).__name__}")
    places = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    for name, value in places:
        if torch.nn.parameter.is_lazy(value):
            raise ValueError(f"{name} has no shape yet; call the module once, then convert it")
        if value.requires_grad and not value.is_floating_point():
            raise ValueError(f"parameters must be real numbers; {name} is {value.dtype}")
    names = {id(value): name for name, value in reversed(places)}
    trained = {name: _array(value) for name, value in module.named_parameters() if value.requires_grad}
    others = {names[id(value)]: _array(value) for name, value in places if names[id(value)] not in trained}
    if changing := [name for name, part in module.named_modules() if part.training and _depends_on_mode(torch, part)]:
        warnings.warn(
            f"{changing[0] or 'module'} is in training mode, but the converted model computes as in evaluation mode: "
            "dropout does nothing, and batch statistics stay as stored. Call module.eval() first if that is meant",
            stacklevel=2,
        )
    model = TorchModel(
        trained,
        Frozen(others),
        _Program(module),
        tuple((name, names[id(value)]) for name, value in places),
    )
    if example is not None:
        _compare(model, module, checks.jax_array("example", example, min_ndim=1))
    return model


def register_torch_function(function: Any, counterpart: Callable[..., Any]) -> None:
    """Give a function of PyTorch its counterpart in JAX, for the modules that `from_torch` converts.

    Args:
        function: The function, such as `torch.cumsum`, which stands for the method `torch.Tensor.cumsum`, too; or a
            class `torch.autograd.Function`. One that had a counterpart gets another one.
        counterpart: Called with PyTorch's arguments, in which tensors are JAX arrays and dtypes are JAX's; returns an
            array, or a tuple or list of arrays. Its gradient is taken by JAX.

    Example:
        >>> ds.models.register_torch_function(torch.cumsum, lambda input, dim: jnp.cumsum(input, dim))
    """
    tensor = _torch_tensor()
    if not callable(function) or not hasattr(function, "__name__"):
        raise TypeError(f"function must be a function of torch; got {checks.shown(function)}")
    checks.function("counterpart", counterpart, "counterpart(*arrays)")
    tensor.register(function, counterpart)


def to_torch(model: PyTree, module: Any) -> Any:
    """A copy of a PyTorch module with the weights of a model.

    Args:
        model: The model, from `from_torch`.
        module: A module with the names and shapes of the one that the model was made from; it is left as it is.
    """
    torch = _package("torch")
    if not isinstance(model, TorchModel):
        raise ValueError(f"to_torch takes a model made by from_torch; got a {type(model).__name__}")
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module; got {checks.shown(module)}")
    module, values = copy.deepcopy(module), model.values()
    places = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name in sorted(values.keys() ^ places.keys()):
        raise ValueError(f"{name} is in the {'model' if name in values else 'module'} only")
    with torch.no_grad():
        for name, place in places.items():
            value = np.array(values[name].astype(jnp.float32) if values[name].dtype == jnp.bfloat16 else values[name])
            if value.shape != tuple(place.shape):
                raise ValueError(f"{name} is {value.shape} in the model and {tuple(place.shape)} in the module")
            place.copy_(torch.from_numpy(value))
    return module


def _depends_on_mode(torch: Any, part: Any) -> bool:
    """Whether a module without its parts computes something else in training mode than in evaluation mode."""
    normalizes = isinstance(part, torch.nn.modules.batchnorm._NormBase) and part.track_running_stats
    drops = isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0
    rate = getattr(part, "dropout", 0)  # of attention and recurrent layers
    return normalizes or drops or (isinstance(rate, int | float) and rate > 0)


def _array(tensor: Any) -> Array:
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        return jnp.asarray(tensor.float().numpy()).astype(jnp.bfloat16)
    return jnp.array(tensor.numpy())


def _compare(model: TorchModel, module: Any, example: Array) -> None:
    """Whether both make the same of the example, up to rounding."""
    torch = _package("torch")
    try:
        with torch.no_grad():
            output = copy.deepcopy(module).eval()(torch.from_numpy(np.array(example))[None])
    except (RuntimeError, IndexError, ValueError) as error:
        reason = _torch_tensor().first_line(error)
        raise ValueError(f"example must be one input of the module, without the batch axis; {reason}") from error
    found = np.asarray(eqx.filter_jit(model)(example), np.float64)
    expected = output[0].double().cpu().numpy()
    gap = np.max(np.abs(found - expected), initial=0) / max(np.max(np.abs(expected), initial=0), 1e-30)
    if not gap <= 1e-3:
        raise ValueError(
            f"the converted {type(module).__name__} differs from PyTorch's on the example by {gap:.1e}; {MEASURE}"
        )


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{name} is missing; install it with: pip install 'dynascope[torch]'") from error


def _torch_tensor() -> Any:
    for name in ("torch", "torch2jax"):
        _package(name)
    return _package("dynascope.models.torch_tensor")
