"""Every public name is there, is documented, and nothing else shows."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import dynascope as ds

ROOMS = [
    ds.graphs,
    ds.geometry,
    ds.probes,
    ds.curves,
    ds.models,
    ds.tasks,
    ds.dynamics,
    ds.lm,
    ds.figures,
    ds.lab,
    ds.ledger,
    ds.theory,
]


def names(module: ModuleType) -> dict[str, Any]:
    """The public functions, classes and modules of a room, as its `__init__` re-exports them."""
    return {name: value for name, value in vars(module).items() if not name.startswith("_") and ours(value)}


def ours(value: Any) -> bool:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    return home.startswith("dynascope")


def test_the_package_shows_the_library_and_nothing_else():
    assert dir(ds) == sorted([*ds.__all__, "__version__"])
    assert {"lab", "dynamics", "geometry", "probes", "curves", "descend", "ensemble", "Trajectory"} <= set(dir(ds))
    assert not {"import_module", "TYPE_CHECKING", "Any"} & set(dir(ds))


@pytest.mark.slow
def test_every_name_of_the_package_resolves_in_a_fresh_process():
    program = (
        "import dynascope as ds\nfor name in dir(ds): getattr(ds, name)\nprint(ds.lab.__name__, ds.dynamics.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dynascope.lab", "dynascope.dynamics"]


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ds.nothing  # pyright: ignore[reportAttributeAccessIssue]


SYSTEMS = [getattr(ds.theory, name) for name in ds.theory.__all__]


@pytest.mark.parametrize("room", [ds, *ROOMS, *SYSTEMS], ids=lambda room: room.__name__)
def test_every_public_name_is_documented(room: ModuleType):
    assert room.__doc__
    public = {name: getattr(ds, name) for name in ds.__all__} if room is ds else names(room)
    bare = [name for name, value in public.items() if not documented(value)]
    assert bare == []


def documented(value: Any) -> bool:
    """A docstring of its own: not inherited, not the signature that NamedTuples and dataclasses get by themselves."""
    own = vars(value).get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    return bool(own) and not re.match(rf"{getattr(value, '__name__', '')}\(", own)


@pytest.mark.parametrize("room", [ds.geometry, ds.probes, ds.curves], ids=lambda room: room.__name__)
def test_shapes_are_in_the_annotations_or_in_the_docstring(room: ModuleType):
    """`Float[Array, "n d"]`, `(n, d)` "a scalar" or "shape": of the function, or for all of its file."""
    without = []
    for name, value in names(room).items():
        if inspect.isfunction(value):
            said = f"{inspect.signature(value)} {value.__doc__} {sys.modules[value.__module__].__doc__}"
            if not re.search(r"\[(Array|np\.ndarray), ['\"]|\([\w.{}*` ]+(,[\w.+ ]*)+\)|\b(scalar|shape)", said):
                without.append(name)
    assert without == []


def test_probes_hold_only_what_runs_in_the_loop():
    kinds = {"Probe", "Snapshot", "Batch"}
    others = {name for name, value in names(ds.probes).items() if not isinstance(value, ModuleType)} - kinds
    returns = {name: inspect.signature(getattr(ds.probes, name)).return_annotation for name in others}
    assert {name for name, kind in returns.items() if kind not in ("Probe", ds.probes.Probe)} == set()


@pytest.mark.parametrize("name", ["every", "apply", "tolerance", "max_products", "convention"])
def test_options_are_given_by_name(name: str):
    """In geometry and probes these options are keyword-only, and so mean the same wherever they stand."""
    wrong = []
    for room in (ds.geometry, ds.probes):
        for function in filter(inspect.isfunction, names(room).values()):
            parameter = inspect.signature(function).parameters.get(name)
            if parameter is not None and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                wrong.append(function.__name__)
    assert wrong == []
