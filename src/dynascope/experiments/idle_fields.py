"""Fields without effect next to others: setting them is an error."""

from __future__ import annotations

from collections.abc import Iterable

from dynascope.lab.experiment import Experiment


def refuse_idle(experiment: Experiment, names: Iterable[str], where: str) -> None:
    """Raise if one of these fields, which have no effect here, is not at its default."""
    for name in names:
        field = type(experiment).model_fields.get(name)
        if field is not None and getattr(experiment, name) != field.default:
            raise ValueError(
                f"{name} has no effect {where}: leave it at {field.default}; got {getattr(experiment, name)}"
            )
