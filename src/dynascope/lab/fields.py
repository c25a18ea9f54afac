"""Parsing of a user's input into an experiment's fields; each mistake is one line."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dynascope.lab.errors import UsageError, nearest
from dynascope.lab.experiment import Experiment
from dynascope.lab.field_types import describe_type
from dynascope.lab.registry import check

Value = TypeVar("Value")
MOST_RUNS = 1_000_000
"""The most runs of a sweep."""


def build(
    kind: type[Experiment], changes: Mapping[str, object], preset: str | None = None, control: bool = False
) -> Experiment:
    """The experiment with these fields, validated.

    Args:
        kind: The class of the experiment.
        changes: Values of fields, on top of everything else.
        preset: A preset of the experiment; `full`, or None, for its defaults.
        control: Whether to apply the control on top of the preset.
    """
    check(kind)
    fields = {**preset_fields(kind, preset), **(kind.control if control else {}), **changes}
    _check_names(kind, fields)
    try:
        built = kind(**fields)
    except ValidationError as error:
        raise FieldError.of(kind, explain(kind, error)) from None
    for name, value in changes.items():
        if _was_truth(value, getattr(built, name)):
            raise FieldError.of(kind, {name: refusal(kind, name, value)})
    return built


class FieldError(UsageError):
    """Fields were given invalid values: `lines` has a line for each of them, by name."""

    lines: Mapping[str, str] = {}

    @classmethod
    def of(cls, kind: type[Experiment], lines: Mapping[str, str]) -> FieldError:
        error = cls("\n".join(f"{kind.id}: {line}" for line in lines.values()))
        error.lines = dict(lines)
        return error


def preset_fields(kind: type[Experiment], preset: str | None) -> Mapping[str, object]:
    """The changes a preset makes; `full` makes none, unless the experiment defines a preset of that name."""
    if preset is None or (preset == "full" and "full" not in kind.presets):
        return {}
    if preset not in kind.presets:
        names = ", ".join([*kind.presets, *(() if "full" in kind.presets else ("full",))])
        raise UsageError(
            f"{kind.id} has no preset {preset!r}; it has {names}{nearest(preset, [*kind.presets, 'full'])}"
        )
    return kind.presets[preset]


def explain(kind: type[Experiment], error: ValidationError) -> dict[str, str]:
    """One line for each invalid field: the allowed values and the given one. A line on several fields, which it names,
    is its own key."""
    lines: dict[str, str] = {}
    faults = error.errors(include_url=False)
    for fault in sorted(faults, key=lambda fault: fault["type"] == "too_short"):  # a wrong item is not counted
        place, *inside = fault["loc"] or ("",)
        name = str(place)
        message = fault.get("ctx", {}).get("error")  # of the experiment itself
        if name not in kind.model_fields:  # of several fields
            lines.setdefault(str(message or fault["msg"]), str(message or f"{name}: {fault['msg']}".lstrip(": ")))
        elif message is not None:
            given = shown(fault["input"])
            lines.setdefault(name, f"{name}: {message}" if given in str(message) else f"{name}: {message}; got {given}")
        else:
            whole = fault["type"] == "missing"  # the list lacks an item
            places = [str(part + 1) for part in inside if isinstance(part, int) and not whole]
            lines.setdefault(name, refusal(kind, name, fault["input"], ".".join(places)))
    return lines


def refusal(kind: type[Experiment], name: str, given: object, item: str = "") -> str:
    """The line for a field whose value, or one of its items, is invalid."""
    field = kind.model_fields[name]
    words = [word for word in re.split(", | or ", describe_type(field)) if word]
    hint = nearest(given, words) if isinstance(given, str) else ""
    got = f"its item {item} is {shown(given)}" if item else f"got {shown(given)}"
    got += ", which is not finite" if isinstance(given, float) and not math.isfinite(given) else ""
    return f"{name} must be {describe_type(field, article=True)}; {got}{hint}"


def shown(given: object) -> str:
    """The given value, shortened if it is long or deep."""
    brief = reprlib.Repr()
    brief.maxlevel, brief.maxlist, brief.maxdict, brief.maxstring, brief.maxlong, brief.maxother = 4, 8, 8, 60, 60, 60
    return json.dumps(given) if given is None or isinstance(given, bool) else " ".join(brief.repr(given).split("\n"))


def once(pairs: Iterable[tuple[str, Value]], option: str) -> dict[str, Value]:
    """The pairs of a repeatable option as a dict; a `UsageError` if a key is given twice."""
    found: dict[str, Value] = {}
    for key, value in pairs:
        if key in found:
            raise UsageError(f"{option} {key} is given twice: {shown(found[key])} and {shown(value)}")
        found[key] = value
    return found


def assignment(text: str) -> tuple[str, object]:
    """Parse `key=value`, with the value as JSON if it is valid JSON, else as text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{shown(text)} is not of the form key=value")
    return key.strip(), parsed(value)


def grid_axis(kind: type[Experiment], text: str) -> tuple[str, list[object]]:
    """Parse `key=a:b:n`, `key=a:b:n:log` or `key=v1,v2,v3`, with each value checked against the field."""
    key, equals, spec = text.partition("=")
    if not equals or not spec:
        raise UsageError(f"grid {shown(text)} is not of the form key=a:b:n, key=a:b:n:log or key=v1,v2,v3")
    _check_names(kind, [key])
    field = kind.model_fields[key]
    hint: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    adapter: TypeAdapter[object] = TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))
    values = []
    for value in _spread(key, spec, whole=_is_whole(field.annotation)):
        try:
            values.append(adapter.validate_python(value))
        except ValidationError as error:
            message = error.errors()[0].get("ctx", {}).get("error")
            why = f"{key}: {message}" if message else refusal(kind, key, value)
            raise UsageError(f"{kind.id}: grid {why}") from None
        if _was_truth(value, values[-1]):
            raise UsageError(f"{kind.id}: grid {refusal(kind, key, value)}")
    return key, list({json.dumps(value, default=str): value for value in values}.values())


def _spread(key: str, spec: str, whole: bool) -> Sequence[object]:
    parts = spec.split(":")
    if len(parts) == 1:
        listed = parsed(f"[{spec}]")  # commas inside brackets belong to a value: [1,2],[3,4]
        return listed if isinstance(listed, list) else [parsed(part.strip()) for part in spec.split(",")]
    shape = f"grid {key}={spec}: a range is start:stop:count, or start:stop:count:log"
    try:
        start, stop, count = float(parts[0]), float(parts[1]), int(parts[2])
    except (ValueError, IndexError):
        raise UsageError(shape) from None
    if len(parts) > 4 or (len(parts) == 4 and parts[3] != "log"):
        raise UsageError(shape)
    if not 1 <= count <= MOST_RUNS or not (math.isfinite(start) and math.isfinite(stop)):
        raise UsageError(f"grid {key}={spec}: count must be from 1 to {MOST_RUNS:,}, start and stop finite")
    logarithmic = len(parts) == 4
    if logarithmic and min(start, stop) <= 0:
        raise UsageError(f"grid {key}={spec}: start and stop of a logarithmic range must be positive")
    a, b = (math.log(start), math.log(stop)) if logarithmic else (start, stop)
    points = [a + (b - a) * k / max(count - 1, 1) for k in range(count)]
    values = [math.exp(point) for point in points] if logarithmic else points
    values = [start, *values[1:-1], stop] if count > 1 else [start]  # the ends exactly, without rounding
    values = [float(f"{value:.12g}") for value in values]
    if whole and (broken := [value for value in values if value != int(value)]):
        whole_ones = ",".join(map(str, dict.fromkeys(round(value) for value in values[:8])))
        raise UsageError(
            f"grid {key}={spec}: {key} takes integers, and this range has {broken[0]:g}; "
            f"give a count with whole steps, or list them: {key}={whole_ones}{',...' if len(values) > 8 else ''}"
        )
    return [int(value) for value in values] if whole else values


def _is_whole(hint: object) -> bool:
    """Whether a field takes integers and no other numbers: int, or int | None."""
    return hint is int or (int in get_args(hint) and float not in get_args(hint))


def parsed(text: str) -> object:
    """The typed value: as JSON if it is valid JSON, else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise UsageError(f"the value {shown(text)} is nested too deeply") from None


def _was_truth(given: object, taken: object) -> bool:
    """Whether `true` or `false`, alone or in a list, was read as a number."""
    if isinstance(given, bool):
        return isinstance(taken, int | float) and not isinstance(taken, bool)
    if isinstance(given, list | tuple) and isinstance(taken, list | tuple):
        return any(_was_truth(*pair) for pair in zip(given, taken, strict=False))
    return False


def _check_names(kind: type[Experiment], names: Iterable[str]) -> None:
    for name in names:
        if name not in kind.model_fields:
            hint, fields = nearest(name, kind.model_fields) or ";", ", ".join(kind.model_fields)
            raise UsageError(f"{kind.id} has no field {shown(name)}{hint} its fields: {fields}")
