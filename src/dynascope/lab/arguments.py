"""Checks of arguments that several functions of the lab take: what is wrong is one line that names the argument."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynascope.lab.errors import UsageError
from dynascope.lab.fields import shown
from dynascope.lab.store import Store

if TYPE_CHECKING:
    from dynascope.lab.experiment import Experiment


def experiment_class(kind: Any, name: str = "kind") -> type[Experiment]:
    """The class of an experiment, from the class itself or an id.

    Args:
        kind: The argument.
        name: Its name.
    """
    from dynascope.lab import registry
    from dynascope.lab.experiment import Experiment

    if isinstance(kind, str):
        return registry.load(kind)
    if isinstance(kind, type) and issubclass(kind, Experiment):
        return kind
    raise UsageError(f"{name} must be an experiment, its class or its id; got {shown(kind)}")


def store_of(store: Any) -> Store:
    """The store, from a store, its folder, or None for the usual one.

    Args:
        store: The argument.
    """
    if isinstance(store, Store):
        return store
    if store is None or (isinstance(store, str | Path) and str(store)):
        return Store(store)
    raise UsageError(f"store must be a store or its folder; got {shown(store)}")


def check_text(**given: Any) -> None:
    """Check that each of these is a string."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a string; got {shown(value)}")


def check_seed(seed: Any) -> None:
    """Check that this is a seed or None.

    Args:
        seed: The argument.
    """
    try:
        whole = seed is None or (0 <= operator.index(seed) < 2**32 and not isinstance(seed, bool))
    except TypeError:
        whole = False
    if not whole:
        raise UsageError(f"seed must be an integer from 0 to 2**32 - 1; got {shown(seed)}")


def check_flags(**given: Any) -> None:
    """Check that each of these is True or False."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise UsageError(f"{name} must be True or False; got {shown(value)}")


def by_field(name: str, given: Any, what: str) -> dict[str, Any]:
    """The mapping as a dict, checked to have names of fields as keys; empty for None.

    Args:
        name: The name of the argument.
        given: The argument.
        what: The values of the mapping, in words.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise UsageError(f"{name} must be a dict with {what} for each field; got {shown(given)}")
    return dict(given)


def listed(name: str, values: Any) -> list[Any]:
    """The values of a field as a list of plain values.

    Args:
        name: The name in messages.
        values: A list, a tuple, a range or an array.
    """
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise UsageError(f"{name} must be a list of values; got {shown(values)}")
    return list(values)


def check_calls(executor: Any, on_progress: Any) -> None:
    """Check that runs can be submitted to the executor, and that progress can be reported.

    Args:
        executor: An executor or None.
        on_progress: A function or None.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise UsageError(f"executor must have the interface of concurrent.futures.Executor; got {shown(executor)}")
    if on_progress is not None and not callable(on_progress):
        raise UsageError(f"on_progress must be a function of one argument; got {shown(on_progress)}")
