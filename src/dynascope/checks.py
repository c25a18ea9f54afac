"""Checks of arguments before anything is compiled; a message names the argument, its value and what is allowed.

Traced values are checked for shape and type only: nothing else is known yet.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import reprlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

Bound = float | int | None
Function = TypeVar("Function", bound=Callable[..., Any])


class InputError(ValueError):
    """Invalid input from a user (a file, a setting): the message is one sentence, shown by the lab without a
    traceback."""


def whole(name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> Any:
    """`value` as an int, checked to be a whole number within the bounds; bools and 2.0 are refused."""
    allowed = f"an integer{_bounds(at_least=at_least, at_most=at_most)}"
    if isinstance(value, Tracer) and value.shape == () and jnp.issubdtype(value.dtype, np.integer):
        return value
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be {allowed}; got {shown(value)}") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}; got {value}")
    if (at_least is not None and number < at_least) or (at_most is not None and number > at_most):
        raise ValueError(f"{name} must be {allowed}; got {number}")
    return number


def sizes(**given: Any) -> None:
    """Check that each of these is a whole number from 1 to the largest of 32 bits."""
    for name, value in given.items():
        whole(name, value, at_least=1, at_most=2**31 - 1)


def flags(**given: Any) -> None:
    """Check that each of these is True or False."""
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} must be True or False; got {shown(value)}")


def positive(**given: Any) -> None:
    """Check that each of these is a finite number above 0, or an array of such numbers."""
    for name, value in given.items():
        array(name, value)
        if not isinstance(value, Tracer) and not np.all((np.asarray(value) > 0) & np.isfinite(value)):
            raise ValueError(f"{name} must be positive and finite; got {shown(value)}")


def real(
    name: str,
    value: Any,
    *,
    above: float | int | None = None,
    at_least: float | int | None = None,
    below: float | int | None = None,
    at_most: float | int | None = None,
) -> Any:
    """`value`, checked to be one finite number (a Python number or an array without axes) within the bounds."""
    allowed = f"a finite number{_bounds(above=above, at_least=at_least, below=below, at_most=at_most)}"
    if np.ndim(_numbers(value)) != 0 or not _are_real(value):
        raise TypeError(f"{name} must be {allowed}; got {shown(value)}")
    if isinstance(value, Tracer):
        return value
    number = float(value)
    within = (above is None or number > above) and (at_least is None or number >= at_least)
    within &= (below is None or number < below) and (at_most is None or number <= at_most)
    if not (np.isfinite(number) and within):
        raise ValueError(f"{name} must be {allowed}; got {number:g}")
    dtype = jax.dtypes.canonicalize_dtype(float)
    if abs(number) > float(np.finfo(dtype).max):
        raise ValueError(f"{name} must be {allowed}, that {dtype} can hold; got {number:g}")
    return number if isinstance(value, int) else value


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """`value`, checked to be an allowed one; the error names the nearest of those."""
    choices = list(allowed)
    if any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        return value
    near = difflib.get_close_matches(str(value), [str(choice) for choice in choices], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {shown(value)}{hint}")


def function(name: str, value: Any, takes: str = "") -> Callable[..., Any]:
    """`value`, checked to be callable; `takes` shows the call in the message, such as `apply(model, x)`."""
    if not callable(value):
        raise TypeError(f"{name} must be a function{takes and ' ' + takes}; got {shown(value)}")
    return value


def texts(name: str, value: Any, what: str) -> list[str]:
    """`value`, one string or several, as a list; `what` says in the message which strings they are."""
    found = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple | set) else []
    if not found or not all(isinstance(part, str) for part in found):
        raise TypeError(f"{name} must be {what}; got {shown(value)}")
    return found


def array(
    name: str, value: Any, *, ndim: int | None = None, min_ndim: int = 0, empty: bool = False, lists: bool = True
) -> Any:
    """`value`, checked to be an array of real numbers with `ndim` axes. A list of numbers is returned as an array, and
    NumPy's half precision as single, since its sums overflow."""
    found = _numbers(value)
    if isinstance(found, np.ndarray | np.generic) and found.dtype == np.float16:
        found = found.astype(np.float32)
    if not _are_real(found) or not (lists or hasattr(value, "dtype")):
        raise TypeError(f"{name} must be an array of real numbers; got {shown(value)}")
    axes = len(found.shape)
    if axes < min_ndim or (ndim is not None and axes != ndim):
        wanted = f"at least {min_ndim}" if ndim is None else f"{ndim}"
        raise ValueError(
            f"{name} must be an array with {wanted} ax{'is' if wanted[-1] == '1' else 'es'}; got {shown(value)}"
        )
    counted = found.shape[-min_ndim:] if min_ndim else found.shape  # there may be no curves, but none without steps
    if not empty and 0 in counted:
        raise ValueError(f"{name} must not be empty; got {shown(value)}")
    return found


def jax_array(name: str, value: Any, **wanted: Any) -> jax.Array:
    """`array` as JAX's; integers that JAX would cut to 32 bits become floating-point numbers."""
    return jnp.asarray(_uncut(array(name, value, **wanted)))


def numbers(name: str, tree: Any) -> Any:
    """The tree with all its leaves as JAX arrays, checked to be numbers or arrays (random keys included)."""

    def leaf(value: Any) -> jax.Array:
        found = native(value)
        if not isinstance(found, jax.Array) and np.asarray(found).dtype.kind not in "biufc":
            raise TypeError(f"{name} must hold numbers or arrays; got {shown(value)}")
        return jnp.asarray(_uncut(found))

    return jax.tree.map(leaf, tree)


def native(value: Any) -> Any:
    """An array of another library (a tensor, a labeled array, a table) as NumPy's; anything else as it is."""
    if isinstance(value, jax.Array | np.ndarray | np.generic | type) or not hasattr(value, "__array__"):
        return value
    try:
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):
        return value


def converts(function: Function) -> Function:
    """The function, made to accept arrays of other libraries, alone and in trees, and to refuse PyTorch modules."""
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given = [convert(name, value) for name, value in zip(names, args, strict=False)]
        named = {name: convert(name, value) for name, value in options.items()}
        return function(*given, *args[len(given) :], **named)

    return cast(Function, call)


def convert(name: str, tree: Any) -> Any:
    """The tree with arrays of other libraries, half precision and integers beyond 32 bits in forms that JAX takes."""
    leaves, structure = jax.tree.flatten(tree)
    found = [_convert_leaf(name, leaf) for leaf in leaves]
    same = all(new is leaf for new, leaf in zip(found, leaves, strict=True))
    return tree if same else jax.tree.unflatten(structure, found)


def _convert_leaf(name: str, leaf: Any) -> Any:
    not_torch(name, leaf)
    found = native(leaf)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype.kind not in "biufcV":
        raise TypeError(f"{name} must hold arrays of numbers; got {shown(found)}")
    return found.astype(np.float32) if found.dtype == np.float16 else _uncut(found)


def jax_model(model: Any) -> Any:
    """The model with its arrays of NumPy and other libraries as JAX arrays; a PyTorch module is refused."""

    def leaf(value: Any) -> Any:
        found = _convert_leaf("model", value)
        return jnp.asarray(found) if isinstance(found, np.ndarray) and found.dtype.kind in "fc" else found

    return jax.tree.map(leaf, model)


def not_torch(name: str, value: Any) -> None:
    """Refuse a PyTorch module: `from_torch` converts it."""
    if any(f"{kind.__module__}.{kind.__name__}" == "torch.nn.modules.module.Module" for kind in type(value).__mro__):
        got = f"the PyTorch module {type(value).__name__}"
        raise TypeError(f"{name} must hold JAX arrays; got {got}: convert it with dynascope.models.from_torch")


def _uncut(value: Any) -> Any:
    """The array; integers beyond 32 bits become floating-point numbers if JAX has no 64-bit integers."""
    if isinstance(value, jax.Array) or jnp.result_type(int) == np.int64:
        return value
    found = np.asarray(value)
    limits = np.iinfo(np.int32)
    cut = found.dtype.kind in "iu" and found.size and (found.max() > limits.max or found.min() < limits.min)
    return found.astype(float) if cut else value


def key(name: str, value: Any) -> Any:
    """`value`, checked to be one JAX random key."""
    kind, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if kind is None or not (
        (jnp.issubdtype(kind, jax.dtypes.prng_key) and shape == ()) or (kind == "uint32" and shape == (2,))
    ):
        raise TypeError(f"{name} must be a random key, such as jax.random.key(0); got {shown(value)}")
    return value


def scalar(name: str, value: Any) -> Any:
    """The value that the function `name` returned, checked to be one real number as an array, which JAX can
    differentiate."""
    if not (isinstance(value, jax.Array) and value.shape == () and jnp.issubdtype(value.dtype, np.floating)):
        raise TypeError(f"{name} must return one real number, as a JAX array of shape (); got {shown(value)}")
    return value


def rows(**data: Any) -> int:
    """The length of the first axis, 1 or more, that all arrays in the named trees have in common."""
    lengths: dict[str, int] = {}
    for name, tree in data.items():
        leaves = [_convert_leaf(name, leaf) for leaf in jax.tree.leaves(tree)]
        if not leaves or any(not getattr(leaf, "shape", ()) for leaf in leaves):
            what = "arrays (not lists) whose first axis counts the examples"
            raise TypeError(f"{name} must hold {what}; got {shown(tree)}")
        found = list(dict.fromkeys(leaf.shape[0] for leaf in leaves))
        if len(found) > 1 or found[0] < 1:
            got = " and ".join(map(str, found))
            raise ValueError(f"all arrays in {name} must have the same number of rows, 1 or more; got {got}")
        lengths[name] = found[0]
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"{' and '.join(lengths)} must hold the same number of examples; got {got}")
    return next(iter(lengths.values()))


def image_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """`shape`, checked to be (height, width, channels)."""
    if not isinstance(shape, tuple | list) or len(shape) != 3:
        raise ValueError(f"shape must be (height, width, channels); got {shown(shape)}")
    height, width, channels = (whole("each of shape", size, at_least=1) for size in shape)
    return height, width, channels


def example(model: Any, x: Any, shape: tuple[int, ...]) -> None:
    """Check that `x` is one example of this shape, as the model takes it."""
    if np.shape(x) != shape:
        name = type(model).__name__
        raise ValueError(f"{name} takes one example of shape {shape} (use jax.vmap for a batch); got {shown(x)}")


def shown(value: Any) -> str:
    """A value as an error message quotes it: on one line, cut short; an array by its type and shape."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if value.shape or isinstance(value, Tracer):
            return f"an array of {value.dtype} and shape {tuple(value.shape)}"
        return f"{value}".partition("\n")[0]
    text = " ".join(reprlib.repr(value).split())
    return f"an object of type {type(value).__name__}" if text.startswith("<") else text


def _numbers(value: Any) -> Any:
    """An array as it is, anything else as a NumPy array, of objects if it does not hold numbers."""
    value = native(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return value
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return np.asarray(None)


def _are_real(value: Any) -> bool:
    kind = _numbers(value).dtype
    if not isinstance(kind, np.dtype | type):  # an array that could not be converted
        return False
    return jnp.issubdtype(kind, np.floating) or jnp.issubdtype(kind, np.integer)


def _bounds(**given: Any) -> str:
    words = {"above": "above", "at_least": "at least", "below": "below", "at_most": "at most"}
    said = [f"{words[name]} {bound}" for name, bound in given.items() if bound is not None]
    return f", {' and '.join(said)}" if said else ""
