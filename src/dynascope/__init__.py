"""dynascope: watch a network learn, beside what the mathematics predicts.

The names below are the library. They are loaded when first used, so that the command answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynascope import models as models
    from dynascope import probes as probes
    from dynascope import tasks as tasks
    from dynascope import theory as theory
    from dynascope.dynamics.central_flow import CentralFlow as CentralFlow
    from dynascope.dynamics.central_flow import central_flow as central_flow
    from dynascope.dynamics.descend import Descent as Descent
    from dynascope.dynamics.descend import descend as descend
    from dynascope.dynamics.ensemble import ensemble as ensemble
    from dynascope.dynamics.flow import Flow as Flow
    from dynascope.dynamics.flow import dense_flow as dense_flow
    from dynascope.dynamics.flow import flow as flow
    from dynascope.dynamics.iterate import Map as Map
    from dynascope.dynamics.iterate import iterate as iterate
    from dynascope.dynamics.record import linear_steps as linear_steps
    from dynascope.dynamics.record import log_steps as log_steps
    from dynascope.dynamics.watch import Watch as Watch
    from dynascope.dynamics.watch import watched_by as watched_by

__version__ = "0.1.0"

_HOMES = {
    "CentralFlow": "dynascope.dynamics.central_flow",
    "central_flow": "dynascope.dynamics.central_flow",
    "Descent": "dynascope.dynamics.descend",
    "descend": "dynascope.dynamics.descend",
    "ensemble": "dynascope.dynamics.ensemble",
    "Flow": "dynascope.dynamics.flow",
    "dense_flow": "dynascope.dynamics.flow",
    "flow": "dynascope.dynamics.flow",
    "Map": "dynascope.dynamics.iterate",
    "iterate": "dynascope.dynamics.iterate",
    "linear_steps": "dynascope.dynamics.record",
    "log_steps": "dynascope.dynamics.record",
    "Watch": "dynascope.dynamics.watch",
    "watched_by": "dynascope.dynamics.watch",
}
_ROOMS = ("models", "probes", "tasks", "theory")

__all__ = [*_HOMES, *_ROOMS]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"dynascope.{name}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dynascope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
