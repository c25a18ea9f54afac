"""The ranges in which limits are looked for: a field, or one item of a field that is a list, between two values.

A place is a vector of coordinates from 0 to 1, one for each range: 0 at its low end and 1 at its high end, linear in
the value or in its logarithm. Distances in these coordinates are shares of the ranges, each in its own scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from dynascope.lab.errors import UsageError, nearest
from dynascope.lab.experiment import Experiment
from dynascope.lab.field_types import describe_type
from dynascope.lab.fields import shown

Span = str | Sequence[object]
"""A range as it is given: "1:8", "1e-3:1:log", (1, 8) or (1e-3, 1, "log")."""
FORM = "a range is key=low:high or key=low:high:log"


@dataclass(frozen=True)
class Range:
    """A field between two values; `item` numbers one item of a list."""

    field: str
    item: int | None
    low: float
    high: float
    log: bool
    whole: bool

    @property
    def name(self) -> str:
        """The field, or the field and its item: `sigma.0`."""
        return self.field if self.item is None else f"{self.field}.{self.item}"

    @property
    def text(self) -> str:
        """The range as `--over` takes it."""
        return f"{self.name}={self.value(0.0):.12g}:{self.value(1.0):.12g}{':log' if self.log else ''}"

    @property
    def step(self) -> float:
        """The coordinate between two integers of a linear range; 0 for real numbers and on a logarithmic scale."""
        return 1 / (self.high - self.low) if self.whole and not self.log else 0.0

    def value(self, at: float) -> float | int:
        """The value at a coordinate, to 12 digits; an integer if the field takes integers."""
        if at in (0.0, 1.0):  # the ends exactly
            value = self.high if at else self.low
        elif self.log:
            value = math.exp(math.log(self.low) + at * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + at * (self.high - self.low)
        return round(value) if self.whole else float(f"{value:.12g}")

    def coordinate(self, value: float) -> float:
        """The coordinate of a value; outside 0 to 1 if the value is outside the range, NaN if it has no logarithm."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else math.nan
        return (value - self.low) / (self.high - self.low)

    def change(self, fields: Mapping[str, object], value: float | int) -> object:
        """The value of the field with this value in it.

        Args:
            fields: The fields of the experiment.
            value: The number in the range.
        """
        if self.item is None:
            return value
        given = fields[self.field]
        assert isinstance(given, Sequence)
        return [*given[: self.item], value, *given[self.item + 1 :]]

    def current(self, fields: Mapping[str, object]) -> float | int | None:
        """The number that the fields have here; None if it is not a number.

        Args:
            fields: The fields of the experiment.
        """
        given = fields[self.field]
        if self.item is not None:
            given = given[self.item] if isinstance(given, Sequence) else None
        return given if isinstance(given, int | float) and not isinstance(given, bool) else None


def split(text: str) -> tuple[str, str]:
    """A field and its range, from `key=low:high`.

    Args:
        text: The text as typed.
    """
    key, equals, span = text.partition("=")
    if not equals or not key.strip() or not span.strip():
        raise UsageError(f"over {shown(text)}: {FORM}")
    return key.strip(), span.strip()


def parse_range(experiment: Experiment, name: str, span: Span) -> Range:
    """The range of a field, checked against its type; what is wrong is one line.

    Args:
        experiment: The experiment in its default setting.
        name: The field, or a field and the number of an item: `sigma.0`.
        span: The range as it is given.
    """
    kind, (field, dot, item) = type(experiment), name.partition(".")
    if field not in kind.model_fields:
        fields = ", ".join(kind.model_fields)
        hint = nearest(field, kind.model_fields) or ";"
        raise UsageError(f"{kind.id} has no field {shown(field)}{hint} its fields: {fields}")
    number = _item(experiment, field, item) if dot else None
    if not isinstance(span, Sequence):
        raise UsageError(f"over must give a range for {name}, such as (1, 8) or '1:8'; got {shown(span)}")
    parts = span.split(":") if isinstance(span, str) else list(span)
    said = f"{name}={span if isinstance(span, str) else ':'.join(map(str, parts))}"
    log = len(parts) == 3 and parts[2] == "log"
    if len(parts) != 2 and not log:
        raise UsageError(f"over {said}: {FORM}")
    try:
        low, high = (float(part) for part in parts[:2])  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise UsageError(f"over {said}: {FORM}") from None
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
        raise UsageError(f"over {said}: low and high must be finite, and low must be below high")
    if log and low <= 0:
        raise UsageError(f"over {said}: the ends of a logarithmic range must be positive")
    takes = _numbers(kind, field, number)
    if takes is None:
        words = describe_type(kind.model_fields[field], article=True)
        hint = f": name one of its items, {field}.0" if isinstance(getattr(experiment, field), tuple | list) else ""
        raise UsageError(f"over {said}: {field} is {words}, not a number{hint if number is None else ''}")
    whole = takes is int
    if whole and (low != int(low) or high != int(high)):
        raise UsageError(f"over {said}: {name} takes integers, so both ends of its range must be integers")
    return Range(field, number, low, high, log, whole)


def _item(experiment: Experiment, field: str, text: str) -> int:
    given = getattr(experiment, field)
    count = len(given) if isinstance(given, tuple | list) else 0
    if not text.isdecimal() or int(text) >= count:
        has = f"has the items 0 to {count - 1}" if count else "is not a list"
        raise UsageError(f"over {field}.{text}: {field} {has} in this setting")
    return int(text)


def _numbers(kind: type[Experiment], field: str, item: int | None) -> type | None:
    """Whether the field (or its item) takes integers or real numbers; None if neither."""
    hints = _parts(kind.model_fields[field].annotation)
    if item is not None:
        hints = {part for hint in hints for inner in get_args(hint) for part in _parts(inner)} - {Ellipsis}
    return float if float in hints else int if int in hints else None


def _parts(hint: object) -> set[object]:
    """A type, or the members of a union or of an annotated type; containers stay whole."""
    if hint in (int, float) or isinstance(hint, type) or hint is Ellipsis:
        return {hint}
    origin = getattr(hint, "__origin__", None)
    if origin in (tuple, list):
        return {hint}
    if hasattr(hint, "__metadata__"):
        return _parts(origin)
    return {part for argument in get_args(hint) for part in _parts(argument)} or {hint}
