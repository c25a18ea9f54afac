"""What all tests share: strict promotion of dtypes, no window system, caches of their own, and a toy experiment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import CodeType
from typing import Any

os.environ["MPLBACKEND"] = "Agg"
os.environ.pop("DYNASCOPE_RUNS", None)
os.environ.pop("DYNASCOPE_EXPERIMENTS", None)

# What dynascope imports is imported before it: within its modules, the hook that checks types hides from Python what is
# compiled already, and 1,700 modules of others would be translated anew.
import diffrax  # noqa: F401
import h5netcdf  # noqa: F401
import jax
import jaxtyping
import jinja2  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import networkx  # noqa: F401
import optax  # noqa: F401
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse.linalg
import scipy.stats  # noqa: F401
import typer  # noqa: F401
import xarray  # noqa: F401

from dynascope.lab import registry
from dynascope.lab.experiment import Experiment
from dynascope.lab.garbage import collect_rarely
from dynascope.lab.machine import make_room
from dynascope.lab.store import Store

TOY = Path(__file__).parent / "lab" / "toy.py"


LITTLE_OPTIMIZED = (
    "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)


def compile_quickly(optimize: bool = False) -> None:
    """Most of the tests' time goes into compiling small programs, which without optimization takes half of it.

    They compute the same; `XLA_FLAGS= make test` compiles them as a user's are. XLA stops at a flag it does not know,
    so another version of it is left alone.
    """
    if not version("jaxlib").startswith("0.10."):
        return
    if os.environ.setdefault("XLA_FLAGS", LITTLE_OPTIMIZED) == LITTLE_OPTIMIZED:
        jax.config.update("jax_disable_most_optimizations", not optimize)


def check_types_once() -> None:
    """Check the types of a function within a function only the first time that it is made.

    Such functions are made anew at each call, and decorating each of them took a quarter of the tests' time.
    """
    decorate, seen = jaxtyping.jaxtyped, set[CodeType]()

    def jaxtyped(**options: Any) -> Callable:
        def decorator(function: Any) -> Any:
            code = getattr(function, "__code__", None)
            if code is None:
                return decorate(function, **options)
            if code in seen:
                return function
            seen.add(code)
            return decorate(function, **options)

        return decorator

    jaxtyping.jaxtyped = jaxtyped


check_types_once()


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Without the type checks of the other tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def optimized() -> Iterator[None]:
    """For programs that run for longer than it takes to compile them: they are optimized a little."""
    compile_quickly(optimize=True)
    yield
    compile_quickly()


def share_the_cores() -> None:
    """Give each of pytest-xdist's workers, and the processes that its tests start, cores of its own.

    XLA starts a thread for every core it sees. Where two workers do so on two busy cores, the threads of small
    programs wait for each other, and the same work can take several times the processor time.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ or not hasattr(os, "sched_setaffinity"):
        return
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    workers, cores = int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[number::workers] or {cores[number % len(cores)]})


def keep_programs(folder: Path) -> None:
    """Keep each compiled program, however small: many tests compile the same ones. Each worker has a folder of its own,
    since one must not read what another is writing."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    jax.config.update("jax_compilation_cache_dir", str(folder / f"compiled-{worker}"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def pytest_configure(config: pytest.Config) -> None:
    """Mixing dtypes without saying so is an error; what is compiled is kept beside pytest's own cache."""
    share_the_cores()
    compile_quickly()
    collect_rarely()
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    cache = getattr(config, "cache", None)
    folder = cache.mkdir("dynascope") if cache else config.rootpath / ".pytest_cache"
    os.environ.setdefault("DYNASCOPE_CACHE", str(folder))
    keep_programs(Path(folder))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process that a test starts translates the package anew
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")


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
