"""Run PyTorch code on JAX arrays: a tensor that holds one, and the mode that sends every function to JAX.

Needs torch and torch2jax, so `models.torch` imports it when it is called.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import torch  # pyright: ignore[reportMissingImports]
from torch.overrides import TorchFunctionMode, resolve_name  # pyright: ignore[reportMissingImports]
from torch2jax import HANDLED_FUNCTIONS, Torchish, t2j  # pyright: ignore[reportMissingImports]

from dynascope.models.torch_functions import FUNCTIONS

RANDOM = "is random, and a model is a deterministic function"
WRONG = {torch.sort, torch.tensor}
"""Functions that torch2jax computes differently from PyTorch."""
AUTOGRAD: dict[type, Callable] = {}
"""The counterparts of classes `torch.autograd.Function` that were registered."""


class Unconvertible(ValueError):
    """An operation without a counterpart in JAX, named in one line."""


class Tensor(Torchish):
    """torch2jax's tensor with the methods and operators of `torch_functions`. In-place changes are followed if they
    go through the tensor itself or its index, not if they go through a view of it."""

    value: Any
    device = torch.device("cpu")
    layout = torch.strided
    requires_grad = is_cuda = is_sparse = is_quantized = False
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]

    def __bool__(self) -> bool:
        return bool(self.value)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __setitem__(self, key: Any, value: Any) -> None:
        _change(self, self.value.at[to_jax(key)].set(to_jax(value)))

    @property
    def mT(self) -> Tensor:
        return Tensor(jnp.swapaxes(self.value, -2, -1))


@jax.custom_jvp
def _past_history(old: jax.Array, new: jax.Array) -> jax.Array:
    """The new values with the derivatives of the old ones: what a change in place under `torch.no_grad` leaves."""
    return new


_past_history.defjvp(lambda values, tangents: (values[1], tangents[0]))


def _change(tensor: Tensor, value: jax.Array) -> Tensor:
    """Change a tensor in place; it keeps its dtype."""
    value = value.astype(tensor.value.dtype)
    tensor.value = value if torch.is_grad_enabled() else _past_history(tensor.value, value)
    return tensor


def _method(name: str) -> Callable:
    return lambda self, *args, **kwargs: call(f"torch.Tensor.{name}", FUNCTIONS[name], (self, *args), kwargs)


def _in_place(name: str) -> Callable:
    function = getattr(operator, name)

    def changed(self: Tensor, other: Any) -> Tensor:
        return _change(self, function(self.value, to_jax(other)))

    return changed


for _name in FUNCTIONS:
    setattr(Tensor, _name, _method(_name))
for _name in ("add", "sub", "mul", "truediv"):
    setattr(Tensor, f"__i{_name}__", _in_place(_name))
    setattr(Tensor, f"{_name.removeprefix('true')}_", _in_place(_name))


class InJax(TorchFunctionMode):
    """Within it, functions of JAX arrays are JAX's; those of torch tensors and numbers alone are torch's own."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, resolve_name(func) or func.__name__
        if not any(isinstance(leaf, Torchish) for leaf in jax.tree.leaves((args, kwargs))):
            return _in_torch(name, func, args, kwargs)
        if func.__name__ in FUNCTIONS:
            return call(name, FUNCTIONS[func.__name__], args, kwargs)
        if func not in HANDLED_FUNCTIONS or func in WRONG:
            raise Unconvertible(f"{name} has no counterpart in JAX")
        args, kwargs = to_tensors((args, kwargs))
        return _named(name, lambda: _recorded(to_tensors(HANDLED_FUNCTIONS[func](*args, **kwargs))))


def apply(module: Any, batch: Any) -> Tensor:
    """The module's output for a batch of JAX's numbers: one tensor."""

    def own_gradient(function: type, *args: Any, **kwargs: Any) -> Any:
        if function not in AUTOGRAD:
            raise Unconvertible(f"the torch.autograd.Function {function.__name__} has no counterpart in JAX")
        return call(function.__name__, AUTOGRAD[function], args, kwargs)

    with InJax(), patch.object(torch.autograd.Function, "apply", classmethod(own_gradient)), torch.enable_grad():
        out = module(Tensor(batch.value))
        out = to_tensors(getattr(out, "logits", out))
    if not isinstance(out, Tensor):
        raise Unconvertible(f"it returns a {type(out).__name__}, but a model returns one tensor")
    if out.shape[:1] != batch.shape[:1]:
        raise Unconvertible(f"it makes the shape {out.shape} of a batch of {batch.shape[0]}: the batch axis is lost")
    return out


def register(function: Any, counterpart: Callable) -> None:
    """Have a function of torch, or a class `torch.autograd.Function`, computed by a function of JAX arrays."""
    if isinstance(function, type) and issubclass(function, torch.autograd.Function):
        AUTOGRAD[function] = counterpart
        return
    name = function.__name__
    FUNCTIONS[name] = counterpart
    if hasattr(torch.Tensor, name):
        setattr(Tensor, name, _method(name))


def call(name: str, function: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of `torch_functions`, on tensors; one that is asked to work in place changes its first."""

    def result() -> Any:
        bound = inspect.signature(function).bind(*args, **kwargs)
        in_place = bound.arguments.pop("inplace", False)
        out = to_tensors(function(*to_jax(bound.args), **to_jax(bound.kwargs)))
        return _change(args[0], out.value) if in_place else _recorded(out)

    return _named(name, result)


def _named(name: str, function: Callable[[], Any]) -> Any:
    """The function's result, or an error of one line that names it."""
    try:
        return to_tensors(function())
    except Unconvertible:
        raise
    except jax.errors.ConcretizationTypeError as error:
        raise Unconvertible(f"{name} depends on the values of arrays, not on their shapes alone") from error
    except Exception as error:
        if "mk_rng" in str(error):
            raise Unconvertible(f"{name} {RANDOM}") from error
        raise Unconvertible(f"{name} failed in JAX: {first_line(error)}") from error


def _recorded(tree: Any) -> Any:
    """The same, without gradients under `torch.no_grad`."""
    if torch.is_grad_enabled():
        return tree
    if isinstance(tree, Tensor):
        return Tensor(jax.lax.stop_gradient(tree.value))
    if isinstance(tree, dict):
        return {key: _recorded(value) for key, value in tree.items()}
    return type(tree)(map(_recorded, tree)) if type(tree) in (tuple, list) else tree


def _in_torch(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """A constant: no array of JAX goes into it."""
    with torch._C.DisableTorchFunction(), torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        result = func(*args, **kwargs)
        if not torch.equal(before, torch.get_rng_state()):
            raise Unconvertible(f"{name} {RANDOM}")
    return result


def to_jax(tree: Any) -> Any:
    """Arrays for tensors of either kind, and JAX's dtypes for torch's, in nested tuples, lists and dicts."""
    if isinstance(tree, Torchish):
        return tree.value
    if isinstance(tree, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return jnp.asarray(tree.numpy(force=True))
    if isinstance(tree, torch.dtype):
        return jax.dtypes.canonicalize_dtype(t2j(tree))
    if isinstance(tree, dict):
        return {key: to_jax(value) for key, value in tree.items()}
    return type(tree)(map(to_jax, tree)) if type(tree) in (tuple, list) else tree


def to_tensors(tree: Any) -> Any:
    """Tensors for arrays of either kind, in nested tuples, lists and dicts; a `Tensor` stays the same one."""
    if isinstance(tree, jax.Array | torch.Tensor | Torchish) and not isinstance(tree, Tensor):
        return Tensor(to_jax(tree))
    if isinstance(tree, dict):
        return {key: to_tensors(value) for key, value in tree.items()}
    return type(tree)(map(to_tensors, tree)) if type(tree) in (tuple, list) else tree


def first_line(error: Exception) -> str:
    """The first sentence of what an error says, or its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].split(". ")[0][:200]
