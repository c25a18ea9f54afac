"""The form of an experiment, made from its fields: their types, the ranges of sliders, and the values in each
setting."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from dynascope.lab import formatting
from dynascope.lab.errors import UsageError
from dynascope.lab.experiment import Experiment
from dynascope.lab.field_types import bounds, describe_type, format_value
from dynascope.lab.fields import build, parsed
from dynascope.lab.references import REFERENCES
from dynascope.lab.report.prose import plain, prose
from dynascope.lab.setting import fields_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def read_form(given: Any) -> dict[str, Any]:
    """The arguments of `Setting.parse` in the JSON that a page sent: each changed field is text, read as `--set` reads
    it. A `UsageError` if it is not a valid form."""
    if not isinstance(given, dict) or not isinstance(given.get("id"), str):
        raise UsageError("a form has the id of an experiment")
    preset, fields = given.get("preset") or None, given.get("changes") or {}
    if not isinstance(preset, str | None) or not isinstance(fields, dict):
        raise UsageError("a form has the name of a preset, and changes of fields as text")
    if not all(isinstance(text, str) for text in fields.values()):
        raise UsageError("a form has changes of fields as text")
    changes, seed = {name: parsed(text) for name, text in fields.items()}, parsed(str(given.get("seed", 0)))
    control = bool(given.get("control"))
    return {"experiment": given["id"], "preset": preset, "control": control, "changes": changes, "seed": seed}


def form(kind: type[Experiment]) -> dict[str, Any]:
    """The data of an experiment's page: its question and notes, its fields, and their values in each setting."""
    title = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
    reference = REFERENCES.get(kind.source.document)
    names = [*kind.presets, *(() if "full" in kind.presets else ("full",))]
    return {
        "id": kind.id,
        "title": plain(title),
        "heading": prose(title),
        "notes": [prose(part) for part in inspect.cleandoc(kind.notes).split("\n\n") if part],
        "document": kind.source.document,
        "place": kind.source.place,
        "url": reference.links[0][1] if reference and reference.links else "",
        "cost": formatting.costs(kind.cost),
        "seconds": dict(kind.cost),
        "fields": [
            {**field_form(name, field), "own": name in inspect.get_annotations(kind)}
            for name, field in kind.model_fields.items()
        ],
        "presets": {name: [_texts(kind, name, False), _texts(kind, name, True)] for name in names},
    }


def _texts(kind: type[Experiment], preset: str, control: bool) -> dict[str, str]:
    """The values of the fields in a setting, as typed by a user."""
    return {name: format_value(value) for name, value in fields_of(build(kind, {}, preset, control)).items()}


def field_form(name: str, field: FieldInfo) -> dict[str, Any]:
    """One field: its kind of control, its allowed values, and the range of its slider."""
    options, parts, nullable = _parts(field.annotation)
    found: dict[str, Any] = {
        "name": name,
        "label": formatting.label(name),
        "takes": describe_type(field),
        "nullable": nullable,
        "description": field.description or "",
    }
    if options and not parts:
        return {**found, "control": "choice", "options": [format_value(option) for option in options]}
    if parts == [bool]:
        return {**found, "control": "choice", "options": ["true", "false", *(["null"] if nullable else [])]}
    if len(parts) == 1 and parts[0] in (int, float) and not options:
        default = field.default if isinstance(field.default, int | float) else None
        limits = bounds([*field.metadata, *_metadata(field.annotation)])
        return {**found, "control": "number", **slider(default, limits, parts[0] is int)}
    return {**found, "control": "text"}


def _parts(hint: Any) -> tuple[list[Any], list[Any], bool]:
    """The alternatives of a type: literal values, other types, and whether null is allowed."""
    origin = get_origin(hint)
    if origin is Literal:
        return list(get_args(hint)), [], False
    if origin in (Union, UnionType):
        options, parts = [], []
        for part in get_args(hint):
            some, others, _ = _parts(part)
            options, parts = options + some, parts + others
        nullable = type(None) in parts
        options += [None] if nullable and options else []
        return options, [part for part in parts if part is not type(None)], nullable
    if hasattr(hint, "__metadata__"):
        return _parts(get_args(hint)[0])
    return [], [hint], hint is type(None)


def _metadata(hint: Any) -> list[Any]:
    inside = [item for part in get_args(hint) for item in _metadata(part)] if get_origin(hint) is not Literal else []
    return [*getattr(hint, "__metadata__", ()), *inside]


def slider(default: int | float | None, bounds: Mapping[str, Any], whole: bool) -> dict[str, Any]:
    """A range around the default, inside the limits: a factor of ten each way, or the limits if both are near."""
    low, high = (bounds.get(closed, bounds.get(strict)) for closed, strict in (("ge", "gt"), ("le", "lt")))
    if low is not None and "gt" in bounds and "ge" not in bounds and whole:
        low += 1
    at = 1 if default is None else default
    if low is not None and high is not None and (low <= 0 or high / low <= 100):
        return {"low": low, "high": high, "log": False, "whole": whole}
    if at > 0:
        first, last = (max(1, at // 10), at * 10) if whole else (at / 10, at * 10)
        first, last = max(first, low or 0) or at / 10, last if high is None else min(last, high)
        return {"low": _rounded(first), "high": _rounded(last), "log": True, "whole": whole}
    reach = 2 * abs(at) or (10 if whole else 1)
    first = -reach if low is None else max(-reach, low)
    return {"low": first, "high": reach if high is None else min(reach, high), "log": False, "whole": whole}


def _rounded(value: int | float) -> int | float:
    return value if isinstance(value, int) else float(f"{value:.3g}") if math.isfinite(value) else 1.0
