"""dynascope: watch a network learn, beside what the mathematics predicts.

The names below are the library. They are loaded when first used, so that the command answers at once.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

if _TYPE_CHECKING:
    from dynascope import (
        curves as curves,
        dynamics as dynamics,
        experiments as experiments,
        figures as figures,
        geometry as geometry,
        graphs as graphs,
        lab as lab,
        ledger as ledger,
        lm as lm,
        models as models,
        probes as probes,
        tasks as tasks,
        theory as theory,
        torch as torch,
    )
    from dynascope.dynamics import (
        CentralFlow as CentralFlow,
        Descent as Descent,
        Flow as Flow,
        Map as Map,
        Member as Member,
        Monitor as Monitor,
        Trajectory as Trajectory,
        central_flow as central_flow,
        dense_flow as dense_flow,
        descend as descend,
        ensemble as ensemble,
        flow as flow,
        iterate as iterate,
        linear_steps as linear_steps,
        log_steps as log_steps,
        monitored_by as monitored_by,
        observe as observe,
    )
    from dynascope.lab.trajectories import load_trajectory as load_trajectory

__version__ = "1.0.0"

_DYNAMICS = (
    "CentralFlow",
    "Descent",
    "Flow",
    "Map",
    "Member",
    "Monitor",
    "Trajectory",
    "central_flow",
    "dense_flow",
    "descend",
    "ensemble",
    "flow",
    "iterate",
    "linear_steps",
    "log_steps",
    "monitored_by",
    "observe",
)
_ROOMS = (
    "curves",
    "dynamics",
    "experiments",
    "figures",
    "graphs",
    "geometry",
    "lab",
    "ledger",
    "lm",
    "models",
    "probes",
    "tasks",
    "theory",
    "torch",
)
_FOUND = [room for room in _ROOMS if room != "torch" or _find_spec("torch")]  # it is not there without PyTorch

__all__ = [*_DYNAMICS, *_FOUND, "load_trajectory"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    if name in _ROOMS:
        return _import_module(f"dynascope.{name}")
    if name in _DYNAMICS or name == "load_trajectory":
        home = "dynascope.dynamics" if name in _DYNAMICS else "dynascope.lab.trajectories"
        value = getattr(_import_module(home), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dynascope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
