"""What all tests share: strict promotion of dtypes, no window system, caches of their own, and a toy experiment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"
os.environ.pop("DYNASCOPE_RUNS", None)

import jax
import pytest

from dynascope.lab import registry
from dynascope.lab.experiment import Experiment
from dynascope.lab.settings import make_room
from dynascope.lab.store import Store

TOY = Path(__file__).parent / "lab" / "toy.py"


def pytest_configure(config: pytest.Config) -> None:
    """Mixing dtypes without saying so is an error; compiled programs are kept beside pytest's own cache."""
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    cache = getattr(config, "cache", None)
    folder = cache.mkdir("dynascope") if cache else config.rootpath / ".pytest_cache"
    os.environ.setdefault("DYNASCOPE_CACHE", str(folder))


@pytest.fixture(autouse=True)
def room_for_programs() -> Iterator[None]:
    """Hundreds of tests in one process compile more programs than it can hold."""
    yield
    make_room()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty run store."""
    return Store(tmp_path / "runs")


@pytest.fixture
def walk() -> type[Experiment]:
    """The toy experiment, found the way a user's own file is."""
    return registry.load(f"{TOY}::toy.walk")
