"""Importing the class of an experiment, from dynascope, an installed package or a user's own file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from dynascope.lab.entry import Entry
from dynascope.lab.errors import UsageError, one_line
from dynascope.lab.json_text import digest_of

if TYPE_CHECKING:
    from dynascope.lab.experiment import Experiment


def import_experiment(entry: Entry) -> type[Experiment]:
    """The class of a catalog entry. A class that is not a complete experiment is refused."""
    from dynascope.lab.experiment import Experiment

    try:
        module = importlib.import_module(entry.module) if entry.module else import_file(entry.path)
    except (Exception, SystemExit) as error:  # anything may happen while a user's own file is imported
        raise UsageError(f"cannot import {entry.path}: {one_line(error)}") from error
    kind = getattr(module, entry.class_name, None)
    name = f"{entry.class_name} in {entry.path}"
    if not inspect.isclass(kind) or not issubclass(kind, Experiment):
        raise UsageError(f"{name} is not an Experiment")
    if kind.id != entry.id:
        raise UsageError(f"{name} says id = {entry.id!r}, but its id is {kind.id!r}")
    missing = [attribute for attribute in ("source", "control") if not hasattr(kind, attribute)]
    if missing or inspect.isabstract(kind):
        raise UsageError(f"{name} lacks {', '.join([*missing, *sorted(kind.__abstractmethods__)])}")
    return kind


def import_file(path: Path) -> ModuleType:
    """The module in a file, imported once."""
    name = f"dynascope_own_{digest_of(str(path))}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
