"""The type and bounds of a field in words, for `dynascope show` and for the message that refuses a value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

NOUNS = {bool: "true or false", int: "integer", float: "number", str: "text", type(None): "null", Any: "any value"}
LIMITS = ("gt", "ge", "lt", "le", "min_length", "max_length")


def describe_type(field: FieldInfo, article: bool = False) -> str:
    """A field's type and limits: `integer ≥ 2`, `list of 1 to 3 numbers > 0`, `sgd or adam`."""
    words = _words(field.annotation, field.metadata)
    if not article or words.split(" ")[0] not in ("integer", "number", "list", "mapping"):
        return words
    return f"{'an' if words.startswith('i') else 'a'} {words}"


def format_value(value: object) -> str:
    """A field's value in the form that `--set` accepts: text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _words(hint: object, metadata: Sequence[object] = (), many: bool = False) -> str:
    """A type with its limits; `many` for the items of a list."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _words(arguments[0], (*arguments[1:], *metadata), many)
    if origin is Literal or origin in (Union, UnionType):
        return either(_choices(hint, metadata, many))
    limits = bounds(metadata)
    if hint in (int, float):
        return f"{NOUNS[hint]}{'s' * many}{_range(limits, hint is int)}"
    if hint is str:
        return f"text{'s' * many}" + (f" of {_count(limits)} characters" if limits else "")
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        return f"[{', '.join(map(_words, arguments))}]"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping{'s' * many} of {' to '.join(map(_words, arguments))}"
    if origin is not None and arguments:
        of_items = get_origin(arguments[0]) is Literal
        count = f"{_count(limits)} {'of ' * of_items}" if limits else ""
        return f"list{'s' * many} of {count}{_words(arguments[0], many=True)}"
    return NOUNS.get(hint) or getattr(hint, "__name__", str(hint))


def _choices(hint: object, metadata: Sequence[object], many: bool) -> list[str]:
    """The values of a literal, the parts of a union, or the items of another choice."""
    if get_origin(hint) is Literal:
        return [str(value) for value in get_args(hint)]
    if get_origin(hint) in (Union, UnionType):
        return [name for part in get_args(hint) for name in _choices(part, metadata, many)]
    return [_words(hint, metadata, many)]


def either(names: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def bounds(metadata: Sequence[object]) -> dict[str, float]:
    """The limits among the annotations of a type: `ge`, `max_length` and the like."""
    found: dict[str, float] = {}
    for item in (part for given in metadata for part in [given, *getattr(given, "metadata", ())]):
        for name in LIMITS:
            value = getattr(item, name, None)
            if value is not None:
                found[name] = value
    return found


def _range(limits: Mapping[str, float], whole: bool) -> str:
    """The tighter limit on each side: ` from 0 to 1`, ` > 0 and ≤ 1`; those of an integer include their ends."""
    ends = dict(limits)
    for open_end, end, step in (("gt", "ge", 1), ("lt", "le", -1)):
        if open_end in ends and whole:
            ends[open_end] += step
        if open_end in ends and end in ends and step * (ends[open_end] - ends[end]) < 0:
            del ends[open_end]
        elif open_end in ends and (whole or end in ends):
            ends.pop(end, None)
            ends[end if whole else open_end] = ends.pop(open_end)
    if {"ge", "le"} <= ends.keys():
        return f" from {_number(ends['ge'])} to {_number(ends['le'])}"
    signs = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    parts = [f"{sign} {_number(ends[name])}" for name, sign in signs.items() if name in ends]
    return " " + " and ".join(parts) if parts else ""


def _count(limits: Mapping[str, float]) -> str:
    """A number of items in words: `3`, `1 to 3`, `1 or more`, `at most 3`."""
    low, high = limits.get("min_length"), limits.get("max_length")
    if low == high:
        return str(low)
    if high is None:
        return f"{low} or more"
    return f"{low} to {high}" if low else f"at most {high}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
