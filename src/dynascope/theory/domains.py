"""Annotations for the arguments of theory functions, and `check_arguments`, which checks a call against them.

The message for an invalid argument is one sentence on its kind, its shape, or a value outside of the domain of the
formula. Traced values are checked for shape and type only.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from dynascope import checks
from dynascope.tasks.scalar_losses import Reals

Function = TypeVar("Function", bound=Callable[..., Any])


class Domain(NamedTuple):
    """The set of values for which a formula holds."""

    allowed: str
    """The set in words, for the message."""
    holds: Callable[[np.ndarray], Any]
    """Whether each entry of an array is allowed."""


class Whole(NamedTuple):
    """Integers between these bounds. An argument annotated as `int` alone must be at least 1."""

    at_least: int = 1
    at_most: int = 2**31 - 1


class Keys(NamedTuple):
    """A dict of arrays with these names."""

    names: tuple[str, ...]


POSITIVE = Domain("positive and finite", lambda x: (x > 0) & (x < np.inf))
NOT_NEGATIVE = Domain("finite and not negative", lambda x: (x >= 0) & (x < np.inf))
Positive, NotNegative = Annotated[Reals, POSITIVE], Annotated[Reals, NOT_NEGATIVE]
Number = Float[Array, ""] | Float[np.ndarray, ""] | float | int
PositiveNumber, NotNegativeNumber = Annotated[Number, POSITIVE], Annotated[Number, NOT_NEGATIVE]
Count = Annotated[int, Whole(0)]


def check_arguments(function: Function) -> Function:
    """Decorate a function so that every call is checked against its annotations.

    Args:
        function: The function; its annotations give the kind, shape and domain of each argument.

    Returns:
        The function; lists and integers reach it as floating-point arrays if it takes such arrays.
    """
    signature = inspect.signature(function)
    hints = functools.cache(lambda: get_type_hints(inspect.unwrap(function), include_extras=True))

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given, sizes = signature.bind(*args, **options), {}
        for name, value in given.arguments.items():
            if value is not signature.parameters[name].default:
                value = value if isinstance(value, Array | np.ndarray) else checks.convert(name, value)
                given.arguments[name] = _check(name, value, hints().get(name, Any), sizes)
        return function(*given.args, **given.kwargs)

    return cast(Function, call)


def _check(name: str, value: Any, hint: Any, sizes: dict[str, tuple[Any, str]]) -> Any:
    if hint == ArrayLike:  # the function checks it itself
        return value
    members, rules = _parts(hint)
    kinds = {get_origin(member) or member for member in members}
    item = next((get_args(member)[0] for member in members if get_origin(member) in (list, Sequence)), None)
    if Any in kinds or (value is None and NoneType in kinds):
        return value
    if Literal in kinds:
        checks.one_of(name, value, [each for member in members for each in get_args(member)])
    elif bool in kinds:
        checks.flags(**{name: value})
    elif Callable in kinds:
        checks.function(name, value)
    elif kinds & {dict, Mapping}:
        wanted = [key for rule in rules for key in rule.names]
        if not isinstance(value, Mapping) or not value or not set(wanted) <= value.keys():
            raise TypeError(f"{name} must be a dict with {' and '.join(wanted)}; got {checks.shown(value)}")
    elif kinds == {int} or kinds == {int, NoneType}:
        checks.whole(name, value, **(rules[0] if rules else Whole())._asdict())
    elif item not in (None, int, float):
        if not isinstance(value, list | tuple) or not value:
            raise TypeError(f"{name} must be a list with one entry or more; got {checks.shown(value)}")
        return [_check(f"each of {name}", each, item, {}) for each in value]
    elif kinds & {float, int, Sequence, tuple, np.ndarray} or any(hasattr(kind, "dim_str") for kind in kinds):
        return _numbers(name, value, members, rules, sizes)
    elif not isinstance(value, tuple(kinds)):
        wanted = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
        raise TypeError(f"{name} must be a {wanted}; got {checks.shown(value)}")
    return value


def _parts(hint: Any) -> tuple[list[Any], list[Any]]:
    """The allowed types of a value, and the rules for it."""
    if get_origin(hint) is Annotated:
        inner, *rules = get_args(hint)
        return _parts(inner)[0], rules
    if get_origin(hint) in (Union, UnionType):
        parts = [_parts(part) for part in get_args(hint)]
        return [kind for kinds, _ in parts for kind in kinds], [rule for _, rules in parts for rule in rules]
    return [hint], []


def _numbers(name: str, value: Any, members: list[Any], rules: list[Any], sizes: dict[str, tuple[Any, str]]) -> Any:
    """A number or an array of numbers of the kind and shape in the annotation."""
    value = checks.native(value)
    array = next((member for member in members if hasattr(member, "dim_str")), None)
    kind = array.__name__.partition("[")[0] if array else "Float" if "float" in str(members) else "Int"
    if kind in ("Bool", "Shaped"):
        found = value if hasattr(value, "dtype") else np.asarray(value)
        if found.dtype.kind not in ("b" if kind == "Bool" else "biuf") or not found.size:
            raise TypeError(f"{name} must be an array of True and False; got {checks.shown(value)}")
    else:
        found = checks.array(name, value)
    if kind == "Int" and not jnp.issubdtype(found.dtype, np.integer):
        raise TypeError(f"{name} must hold integers; got {checks.shown(value)}")
    one, pair = float in members or int in members, next((m for m in members if get_origin(m) is tuple), None)
    if array or pair:
        _fits(name, found, array.dim_str.split() if array else [str(len(get_args(pair)))], sizes)
    elif len(found.shape) > any(get_origin(member) is Sequence for member in members) or not (found.shape or one):
        raise TypeError(f"{name} must be {'one number' if one else 'a list of numbers'}; got {checks.shown(value)}")
    missing = np.isnan(found) if kind == "Float" and not isinstance(value, Tracer) else False
    if np.any(missing) and not hasattr(value, "dtype"):  # in an array it marks missing values
        raise ValueError(f"{name} must be a number; got nan")
    for rule in rules if not isinstance(value, Tracer) else ():
        if not np.all(rule.holds(np.asarray(found)) | (missing if found.shape else False)):
            raise ValueError(f"{name} must be {rule.allowed}; got {checks.shown(value)}")
    if kind != "Float" or (hasattr(value, "dtype") and jnp.issubdtype(value.dtype, np.floating)) or not array:
        value = found if isinstance(value, np.ndarray) else value
        return float(value) if kind == "Float" and isinstance(value, int) else value
    if one and not found.shape:
        return float(value)
    return jnp.asarray(value, float) if array.array_type is Array else np.asarray(value, float)


def _fits(name: str, value: Any, dims: list[str], sizes: dict[str, tuple[Any, str]]) -> None:
    """Whether the shape is that of the annotation, with the sizes of the arguments before."""
    if dims == ["..."]:
        try:
            sizes["..."] = np.broadcast_shapes(value.shape, sizes.get("...", ((), name))[0]), name
        except ValueError:
            there = f"; got {checks.shown(value)}, and {sizes['...'][0]} before it"
            raise ValueError(f"{name} must have a shape that fits those of the other arguments{there}") from None
    star = next((at for at, dim in enumerate(dims) if dim.startswith(("*", "..."))), None)
    fixed = [dim for at, dim in enumerate(dims) if at != star]
    cut = len(dims) if star is None else star
    shape = value.shape[:cut] + value.shape[len(value.shape) - len(fixed) + cut :] if star is not None else value.shape
    fits = len(shape) == len(fixed) and len(value.shape) >= len(fixed)
    said = []
    for dim, size in zip(fixed, shape, strict=False):
        known, where = sizes.setdefault(dim, (size, name)) if dim.isidentifier() and dim != "_" else (size, name)
        fits &= size == (int(dim) if dim.isdigit() else known)
        said += [f"{dim} = {known} as in {where}"] if where != name else []
    if not fits:
        wanted = ", ".join("..." if at == star else dim for at, dim in enumerate(dims)) + "," * (len(dims) == 1)
        hint = f" with {' and '.join(dict.fromkeys(said))}" if said else ""
        raise ValueError(f"{name} must have shape ({wanted}){hint}; got {checks.shown(value)}")
