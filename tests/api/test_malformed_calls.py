"""Malformed calls of the public functions: each is refused in one sentence, or gives a right result.

One argument of a valid call is replaced by a value that makes no sense, unless `valid_calls` says that it does.
"""

from __future__ import annotations

import inspect
import math
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jaxtyping
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

sys.path.append(str(Path(__file__).parent))

from valid_calls import COUNTER_EXAMPLES, NOT_CALLED, REGISTRY, ROOMS_WITHOUT_CALLS

import dynascope as ds

EXAMPLES = {
    "geometry": 80,
    "probes": 80,
    "curves": 80,
    "models": 50,
    "tasks": 40,
    "dynamics": 80,
    "rates": 40,
    "concept": 120,
    "edge": 120,
    "linearity": 60,
    "catapult": 100,
    "features": 20,
    "rank": 60,
    "recall": 100,
    "graphs": 100,
    "theory.graphs": 60,
}
SECONDS = 120
"""A call that takes longer hangs."""

NONSENSE: dict[str, Any] = {
    "nan": math.nan,
    "-1": -1,
    "0": 0,
    "2.5": 2.5,
    "2**62": 2**62,
    "1j": 1j,
    "True": True,
    "None": None,
    "foo": "foo",
    "[]": [],
    "{}": {},
    "nested": [[1.0], [2.0]],
    "object": object(),
    "shaped": np.ones((2, 3, 5, 7), np.float32),
    "empty": np.zeros(0, np.float32),
}

SAID = r"\b(must|needs?|give|has no|is called|takes)\b"


def public(module: ModuleType) -> set[str]:
    """The names of what can be called; of a system of the theory, the functions of its modules that take something."""
    if not module.__name__.startswith("dynascope.theory."):
        return {name for name in vars(module) if name[0] != "_" and callable(vars(module)[name]) and own(module, name)}
    modules = {name: each for name, each in vars(module).items() if isinstance(each, ModuleType) and own(module, name)}
    return {
        f"{name}.{function}"
        for name, each in modules.items()
        for function, value in vars(each).items()
        if inspect.isfunction(value)
        and value.__module__ == each.__name__
        and function[0] != "_"
        and name not in COUNTER_EXAMPLES
        and inspect.signature(value).parameters
    }


def own(module: ModuleType, name: str) -> bool:
    value = vars(module)[name]
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    return home.startswith(module.__name__ if isinstance(value, ModuleType) else "dynascope")


def test_every_room_is_here():
    rooms = {name for name in ds.__all__ if isinstance(getattr(ds, name), ModuleType)}
    systems = {f"theory.{name}" if name in rooms else name for name in ds.theory.__all__}
    assert rooms | systems | {"rates"} == REGISTRY.keys() | ROOMS_WITHOUT_CALLS.keys()


@pytest.mark.parametrize("room", REGISTRY)
def test_every_public_function_has_a_valid_call(room: str):
    """One that is missing gets a call in valid_calls/, or stands with its reason in `NOT_CALLED`."""
    module, calls = REGISTRY[room]
    others = {name for names in NOT_CALLED.values() for name in names.split()}
    if find_spec("torch2jax") is None:
        others |= {"models.from_torch", "models.to_torch"}
    assert set(calls()) == {name for name in public(module) if f"{room}.{name}" not in others}


@pytest.mark.parametrize("room", REGISTRY)
def test_the_calls_are_valid_and_their_allowed_arguments_exist(room: str, as_a_user: None):
    module, calls = REGISTRY[room]
    for name, (arguments, _) in calls().items():
        with limited(name):
            attrgetter(name)(module)(**arguments)


@pytest.mark.parametrize("room", REGISTRY)
def test_a_malformed_call_is_refused_in_one_sentence(room: str, as_a_user: None):
    module, calls = REGISTRY[room]
    cases = [
        (name, argument, value, arguments)
        for name, (arguments, allowed) in sorted(calls().items())
        for argument, value in replacements(attrgetter(name)(module), arguments, allowed)
    ]

    @settings(
        max_examples=EXAMPLES[room],
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(cases))
    def refused(case: tuple[str, str, str, dict[str, Any]]) -> None:
        name, argument, value, arguments = case
        assert complaint(attrgetter(name)(module), argument, value, arguments) is None

    refused()


def replacements(function: Callable[..., Any], arguments: dict[str, Any], allowed: dict[str, str]) -> Iterator[Any]:
    """Arguments, and what makes no sense for them: not the default, nor what the call allows."""
    for argument, parameter in inspect.signature(function).parameters.items():
        fine = set(allowed.get(argument, "").split())
        fine |= {"None"} if parameter.default is None else set()
        fine |= {"True"} if isinstance(parameter.default, bool) or argument == "formed" else set()
        for value, thing in NONSENSE.items():
            default = type(thing) is type(parameter.default) and thing == parameter.default
            if value not in fine and not default:
                yield argument, value


def complaint(function: Callable[..., Any], argument: str, value: str, arguments: dict[str, Any]) -> str | None:
    """What is wrong with the answer to a malformed call; None where it is one sentence that names the argument."""
    call = f"{function.__name__}({argument}={value})"
    try:
        with limited(call):
            found = function(**arguments | {argument: NONSENSE[value]})
    except Exception as error:
        if any("valid_calls" in frame.filename for frame in traceback.extract_tb(error.__traceback__)):
            return None  # raised by the caller's own function, which was called with what the caller gave
        if not isinstance(error, ValueError | TypeError):
            return f"{call}: {type(error).__name__}: {error}"
        sentence = str(error)
        names = re.search(rf"\b({'|'.join(inspect.signature(function).parameters)})\b", sentence)
        good = "\n" not in sentence and len(sentence) < 240 and names and re.search(SAID, sentence)
        return None if good else f"{call}: {type(error).__name__}: {sentence}"
    return f"{call} returned {found!r:.200}"


@contextmanager
def limited(call: str) -> Iterator[None]:
    """Stop a call that takes too long."""

    def stop(*_: Any) -> None:
        raise RuntimeError(f"{call} takes more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Without the type checks and the strict promotion of the other tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
