"""Malformed calls of the public functions: each is refused in one sentence, or gives a right result.

One argument of a valid call is replaced by a value that makes no sense, unless `valid_calls` says that it does.
"""

from __future__ import annotations

import inspect
import math
import random
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

import equinox as eqx
import jax
import jaxtyping
import numpy as np
import optax
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings, strategies as st

sys.path.append(str(Path(__file__).parent))

from valid_calls import COUNTER_EXAMPLES, NOT_CALLED, REGISTRY, ROOMS_WITHOUT_CALLS

import dynascope as ds
from dynascope.lab.errors import LabError

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
    "figures": 100,
    "graphs": 100,
    "lab": 100,
    "theory.graphs": 60,
    "torch": 80,
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
        others |= {"models.from_torch", "models.register_torch_function", "models.to_torch"}
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
        return refusal(function, call, error)
    return f"{call} returned {found!r:.200}"


def refusal(function: Callable[..., Any], call: str, error: Exception) -> str | None:
    """What is wrong with an error; None where it is one sentence that names an argument."""
    if any("valid_calls" in frame.filename for frame in traceback.extract_tb(error.__traceback__)):
        return None  # raised by the caller's own function, which was called with what the caller gave
    if not isinstance(error, ValueError | TypeError | LabError):
        return f"{call}: {type(error).__name__}: {error}"
    sentence = str(error)
    names = re.search(rf"\b({'|'.join(inspect.signature(function).parameters)})\b", sentence)
    good = "\n" not in sentence and len(sentence) < 240 and names and re.search(SAID, sentence)
    return None if good else f"{call}: {type(error).__name__}: {sentence}"


KINDS: dict[str, Callable[[np.ndarray], tuple[Any, Any]]] = {
    "integers": lambda x: (np.rint(x).astype(np.int64), np.rint(x).astype(float)),
    "huge": lambda x: (np.full(x.shape, 2**62), np.full(x.shape, 2.0**62)),
    "unsigned": lambda x: (np.full(x.shape, 2**31, np.uint64), np.full(x.shape, 2.0**31)),
    "float16": lambda x: (x.astype(np.float16), x.astype(np.float16).astype(np.float32)),
    "bool": lambda x: (x > 0, (x > 0).astype(float)),
    "xarray": lambda x: (xr.DataArray(x), x),
    "pandas": lambda x: ((pd.Series if x.ndim == 1 else pd.DataFrame)(x, range(5, 5 + len(x))), x),
    "torch": lambda x: (pytest.importorskip("torch").from_numpy(x.copy()).requires_grad_(), x),
    "objects": lambda x: (np.full(x.shape, object()), None),
}
"""An array in another form, and what must come out the same: the usual array, or None where no result can be right."""
PER_ROOM = 12
"""How many arguments in another form are tried in each room."""


@pytest.mark.parametrize(
    "room",
    sorted(REGISTRY.keys() - {"rates", "rank"}),  # no arrays; records of arrays, which functions make
)
def test_arrays_in_other_forms_give_the_right_result_or_are_refused(room: str, as_a_user: None):
    module, calls = REGISTRY[room]
    cases = [
        (name, argument, kind, arguments)
        for name, (arguments, _) in sorted(calls().items())
        for argument, value in arguments.items()
        for kind in KINDS
        if not any(isinstance(part, eqx.Module) for part in parts_of(value))  # whose arrays are JAX's
        and any(is_array(leaf) for leaf in jax.tree.leaves(value))
        and find_spec("torch" if kind == "torch" else "jax")
    ]
    chosen = random.Random(room).sample(cases, min(PER_ROOM, len(cases)))
    assert [wrong for case in chosen if (wrong := difference(module, *case))] == []


def parts_of(value: Any) -> list[Any]:
    return jax.tree.leaves(value, is_leaf=lambda part: isinstance(part, eqx.Module))


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array) and leaf.dtype in (np.float32, np.float64) and 0 < leaf.ndim < 3


def difference(module: ModuleType, name: str, argument: str, kind: str, arguments: dict[str, Any]) -> str | None:
    """What is wrong with the answer to arrays in another form; None where it is right, or a good refusal."""
    function, call = attrgetter(name)(module), f"{name}({argument} as {kind})"

    def outcome(part: int) -> Any:
        changed = jax.tree.map(lambda x: KINDS[kind](np.asarray(x))[part] if is_array(x) else x, arguments[argument])
        with limited(call):
            return function(**arguments | {argument: changed})

    try:
        found = outcome(0)
    except Exception as error:
        return refusal(function, call, error)
    if kind == "objects":
        return f"{call} returned {found!r:.200}"
    try:
        expected = outcome(1)
    except Exception as error:
        return f"{call} returned {found!r:.100}, but of the usual array {error!r:.100}"
    same = all(map(agree, jax.tree.leaves(found), jax.tree.leaves(expected)))
    return None if same else f"{call} returned {found!r:.200}, not {expected!r:.200}"


def agree(found: Any, expected: Any) -> bool:
    """Whether two results are the same up to rounding; what is no array of numbers is not compared."""
    found = found.detach() if hasattr(found, "detach") else found
    if (
        not isinstance(expected, np.ndarray | np.generic | jax.Array | float)
        or np.asarray(expected).dtype.kind not in "fc"
    ):
        return True
    with np.errstate(all="ignore"):
        return np.shape(found) == np.shape(expected) and bool(
            np.allclose(np.asarray(found, complex), np.asarray(expected, complex), rtol=1e-2, atol=1e-3, equal_nan=True)
        )


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
            warnings.filterwarnings("error", message=".*requested dtype u?int64.*")
            yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(
    ("name", "argument", "fine"),
    [
        ("resume", "steps", {"0"}),
        ("resume", "times", {"None"}),
        ("resume", "record", {"None"}),
        ("resume", "stop", {"None"}),
        ("save", "path", {"foo"}),
        ("load", "path", {"foo"}),
        ("load", "like", set()),
    ],
)
def test_a_malformed_call_of_a_run_is_refused_in_one_sentence(
    name: str, argument: str, fine: set[str], as_a_user: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    run = ds.descend(np.ones(3, np.float32), lambda w: (w**2).sum(), optax.sgd(0.1), steps=2)
    run.save("kept")
    calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "resume": (run.resume, {"steps": 3}),
        "save": (run.save, {"path": "again"}),
        "load": (ds.load_trajectory, {"path": "kept", "like": run}),
    }
    function, arguments = calls[name]
    function(**arguments)
    wrong = [complaint(function, argument, value, arguments) for value in NONSENSE if value not in fine]
    assert [one for one in wrong if one] == []
