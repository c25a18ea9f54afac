"""The facts of an experiment: its question, its source, its full setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from dynascope.lab import registry
from dynascope.lab.errors import LabError
from dynascope.lab.experiment import Experiment
from dynascope.lab.json_text import plain_json
from dynascope.lab.references import REFERENCES

Find = Callable[[str], type[Experiment] | None]
"""From an experiment's id to its class, or None where the class is gone: its runs still get a page."""

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class About:
    """The facts that do not change from run to run; fields as JSON holds them, to compare with a stored run's."""

    question: str
    document: str = ""
    place: str = ""
    url: str = ""
    notes: str = ""
    defaults: Fields = field(default_factory=dict)
    presets: Mapping[str, Fields] = field(default_factory=dict)
    control: Fields = field(default_factory=dict)

    def setting(self, preset: str | None) -> Fields:
        """The fields of a preset, or of the full setting."""
        return {**self.defaults, **self.presets.get(preset or "", {})}

    def is_control(self, fields: Fields, preset: str | None) -> bool:
        """Whether the fields are the control's, and not those of a preset that happens to share them."""
        base = self.setting(preset)
        if not self.control or all(base.get(name) == value for name, value in self.control.items()):
            return False
        return all(fields.get(name) == value for name, value in self.control.items())


def find_registered(experiment_id: str) -> type[Experiment] | None:
    """The class of an experiment of the package."""
    try:
        return registry.load(experiment_id)
    except LabError:
        return None


def about(experiment_id: str, find: Find, manifest: Mapping[str, Any]) -> About:
    """The facts of an experiment: from its class, else the title from a run's manifest."""
    cls = find(experiment_id)
    if cls is None:
        return About(str(manifest.get("title") or experiment_id))
    return About(
        question=cls.title(),
        document=cls.source.document,
        place=cls.source.place,
        url=REFERENCES[cls.source.document].url if cls.source.document in REFERENCES else "",
        notes=cls.notes,
        defaults=_fields(cls, {}),
        presets={name: _changed(cls, change) for name, change in cls.presets.items()},
        control=_changed(cls, getattr(cls, "control", {})),
    )


def _fields(cls: type[Experiment], change: Mapping[str, Any]) -> dict[str, Any]:
    """The fields after a change, in the form the store writes; empty where the class refuses them."""
    try:
        return plain_json(cls(**change).model_dump(mode="json"))
    except ValidationError:
        return {}


def _changed(cls: type[Experiment], change: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _fields(cls, change).items() if name in change}
