"""The form of an experiment, made from its fields: what each takes, its slider's range, its value in each setting."""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from dynascope.lab import formatting
from dynascope.lab.errors import UsageError
from dynascope.lab.experiment import Experiment
from dynascope.lab.field_types import bounds, describe_type
from dynascope.lab.fields import FieldError, build, parsed
from dynascope.lab.references import REFERENCES
from dynascope.lab.report.prose import plain, prose
from dynascope.lab.terminal import typed

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Asked:
    """What a form asks for: a setting, each changed field as it was typed."""

    id: str
    preset: str | None
    control: bool
    seed: int
    typed: Mapping[str, str]

    @classmethod
    def of(cls, given: Any) -> Asked:
        """Read what a page sent; a `UsageError` where it is not of that form."""
        if not isinstance(given, dict) or not isinstance(given.get("id"), str):
            raise UsageError("a form has the id of an experiment")
        preset, fields = given.get("preset") or None, given.get("changes") or {}
        if not isinstance(preset, str | None) or not isinstance(fields, dict):
            raise UsageError("a form has the name of a preset, and changes of fields as text")
        if not all(isinstance(text, str) for text in fields.values()):
            raise UsageError("a form has changes of fields as text")
        seed = parsed(str(given.get("seed", 0)))
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= LARGEST_SEED:
            line = f"seed must be an integer from 0 to {LARGEST_SEED}; got {given.get('seed')}"
            raise _error({"seed": line})
        return cls(given["id"], None if preset == "full" else preset, bool(given.get("control")), seed, fields)

    @property
    def changes(self) -> dict[str, Any]:
        """The changed fields, read as `--set` reads them."""
        return {name: parsed(text) for name, text in self.typed.items()}

    def built(self, kind: type[Experiment]) -> Experiment:
        """The experiment; a `UsageError` in the words of the command line where that is not possible."""
        return build(kind, self.changes, self.preset, self.control)

    @property
    def command(self) -> str:
        """The command that does the same."""
        line = ["dynascope", "run", self.id, *(["--preset", self.preset] if self.preset else [])]
        line += ["--control"] if self.control else []
        for name, text in self.typed.items():
            line += ["--set", f"{name}={text}"]
        return shlex.join([*line, *(["--seed", str(self.seed)] if self.seed else [])])

    @property
    def python(self) -> str:
        """The Python that does the same."""
        options = {"preset": self.preset, "control": self.control or None}
        given = "".join(f", {name}={value!r}" for name, value in options.items() if value)
        preset = f", preset={self.preset!r}" if self.preset else ""
        return (
            "from dynascope.lab.fields import build\n"
            "from dynascope.lab.registry import load\n"
            "from dynascope.lab.run import run\n\n"
            f"experiment = build(load({self.id!r}), {self.changes!r}{given})\n"
            f"stored = run(experiment, seed={self.seed}{preset})\n"
            "stored.measured()  # the trace; also stored.predicted(), stored.claims\n"
        )


def _error(lines: Mapping[str, str]) -> FieldError:
    error = FieldError("\n".join(lines.values()))
    error.lines = dict(lines)
    return error


def form(kind: type[Experiment]) -> dict[str, Any]:
    """An experiment as its page needs it: its question and notes, its fields, and their values in each setting."""
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
    """The values of the fields in a setting, as one would type them."""
    return {name: typed(value) for name, value in build(kind, {}, preset, control).model_dump(mode="json").items()}


def field_form(name: str, field: FieldInfo) -> dict[str, Any]:
    """One field: its kind of control, what it takes, and the range of its slider."""
    options, parts, nullable = _parts(field.annotation)
    found: dict[str, Any] = {
        "name": name,
        "label": formatting.label(name),
        "takes": describe_type(field),
        "nullable": nullable,
    }
    found["description"] = field.description or ""
    if options and not parts:
        return {**found, "control": "choice", "options": [typed(option) for option in options]}
    if parts == [bool]:
        return {**found, "control": "choice", "options": ["true", "false", *(["null"] if nullable else [])]}
    if len(parts) == 1 and parts[0] in (int, float) and not options:
        default = field.default if isinstance(field.default, int | float) else None
        limits = bounds([*field.metadata, *_metadata(field.annotation)])
        return {**found, "control": "number", **slider(default, limits, parts[0] is int)}
    return {**found, "control": "text"}


def _parts(hint: Any) -> tuple[list[Any], list[Any], bool]:
    """What a type is a choice of: literal values, other types, and whether null is one of them."""
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
    """A range around the default, inside the limits: a factor of ten each way, or the limits where both are near."""
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
