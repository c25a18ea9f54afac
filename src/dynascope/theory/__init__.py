"""Theory: closed forms, ODEs, recursions and bounds, one folder for each system. Results have the names of the measured
quantities.

A system is loaded when it is first used.
"""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from dynascope.theory import (
        catapult as catapult,
        concept as concept,
        edge as edge,
        features as features,
        graphs as graphs,
        linearity as linearity,
        rank as rank,
        recall as recall,
    )

__all__ = ["catapult", "concept", "edge", "features", "graphs", "linearity", "rank", "recall"]


def __getattr__(name: str) -> _ModuleType:
    if name in __all__:
        return _import_module(f"dynascope.theory.{name}")
    raise AttributeError(f"module 'dynascope.theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
