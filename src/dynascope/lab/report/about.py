"""The facts of an experiment: its question, its source, its full setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dynascope.lab import registry
from dynascope.lab.errors import LabError
from dynascope.lab.experiment import Experiment
from dynascope.lab.references import REFERENCES
from dynascope.lab.setting import Setting, fields_after
from dynascope.lab.stored_run import StoredRun

Find = Callable[[str], type[Experiment] | None]
"""From an experiment's id to its class, or None if the class is gone: its runs still get a page."""


@dataclass(frozen=True)
class About:
    """The facts that do not change from run to run; the full setting's fields as JSON holds them."""

    question: str
    document: str = ""
    place: str = ""
    url: str = ""
    notes: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    cls: type[Experiment] | None = None

    def setting(self, run: StoredRun) -> Setting | None:
        """The setting of a stored run; None if its experiment is gone or has other fields now."""
        return Setting.of_run(run, self.cls) if self.cls else None


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
        defaults=fields_after(cls, {}),
        cls=cls,
    )
