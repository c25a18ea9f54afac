"""The lab: finds experiments, runs them, stores their measurements, sweeps them and writes the report.

`experiment` and `claims` define an experiment; `registry` finds experiments without importing them, `run` and `sweeps`
execute them, with the help of `workers`, `store` keeps the runs, `listing` and `lookup` find them again, `report` turns
the store into a site. Only the lab does I/O. The names below are for notebooks and scripts; they are loaded when first
used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

if _TYPE_CHECKING:
    from dynascope.lab.limit_search import limits as limits
    from dynascope.lab.listing import runs as runs
    from dynascope.lab.lookup import load as load
    from dynascope.lab.observations import save_observation as save_observation
    from dynascope.lab.showing import show_progress as show_progress
    from dynascope.lab.sweeps import sweep as sweep
    from dynascope.lab.trace_findings import findings as findings

_HOMES = {
    "sweep": "sweeps",
    "limits": "limit_search",
    "runs": "listing",
    "load": "lookup",
    "save_observation": "observations",
    "findings": "trace_findings",
    "show_progress": "showing",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dynascope.lab' has no attribute {name!r}")
    value = getattr(_import_module(f"dynascope.lab.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
