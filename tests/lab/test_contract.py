"""What an experiment's methods may return, and what is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import dynascope as ds
from dynascope.lab.claims import claim
from dynascope.lab.errors import ExperimentCrash, UsageError
from dynascope.lab.fields import build
from dynascope.lab.run import run
from dynascope.lab.store import Store

CLAIM = claim("a", "it is so", measured=1, expected=1, holds=True)


def test_measure_and_predict_may_return_trees(walk, store: Store, monkeypatch):
    def measure(self, seed):
        short = xr.Dataset({"loss": ("step", [1.0, 0.5])}, {"step": [0, 5]}, {"compile_seconds": 0.5})
        long = xr.Dataset({"loss": ("step", [1.0, 0.5, 0.1])}, {"step": [0, 1, 2]}, {"compile_seconds": 0.25})
        return xr.DataTree.from_dict({"/sgd": short, "/adam/warm": long})

    def predict(self, measured):
        return measured.map_over_datasets(lambda node: 2 * node)

    def reduce(self, measured, predicted):
        return xr.DataTree.from_dict({"/sgd": predicted["sgd"].to_dataset()})

    def judge(self, reduced):
        yield claim("twice", "it is twice", measured=1, expected=1, holds=reduced["sgd"].loss[0] == 2.0)

    def draw(self, measured, predicted, reduced):
        assert measured["adam/warm"].loss.sizes == {"step": 3}
        return {}

    for method in (measure, predict, reduce, judge, draw):
        monkeypatch.setattr(walk, method.__name__, method)
    done = run(walk(), store=store)
    assert done.verdict == "holds"
    assert done.manifest["compile_seconds"] == 0.75
    measured, predicted = done.measured(), done.predicted()
    assert isinstance(measured, xr.DataTree)
    assert isinstance(predicted, xr.DataTree)
    assert measured["sgd"].attrs == {}
    np.testing.assert_array_equal(predicted["adam/warm/loss"], [2.0, 1.0, 0.2])


@pytest.mark.parametrize("seed", [-1, 2**32, True])
def test_a_seed_is_a_whole_number_of_32_bits(walk, store: Store, seed: int):
    with pytest.raises(UsageError, match=r"^toy\.walk: seed must be an integer from 0 to 4294967295; got "):
        run(walk(), seed=seed, store=store)
    assert not store.root.exists()
    assert run(walk(), seed=2**32 - 1, store=store).seed == 2**32 - 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_field_is_a_finite_number(walk, value: float):
    with pytest.raises(UsageError, match=r"toy.walk: drift must be a number; got "):
        build(walk, {"drift": value})


@pytest.mark.parametrize(
    ("method", "answer", "line"),
    [
        ("measure", lambda *_: None, "measure returned NoneType, not an xarray.Dataset or xarray.DataTree"),
        ("measure", lambda *_: [1, 2], "measure returned list, not an xarray.Dataset or xarray.DataTree"),
        ("predict", lambda *_: {"a": 1}, "predict returned dict, not an xarray.Dataset or xarray.DataTree"),
        ("reduce", lambda *_: None, "reduce returned NoneType, not an xarray.Dataset or xarray.DataTree"),
        ("judge", lambda *_: None, "judge returned NoneType, not an iterable of Claims"),
        ("judge", lambda *_: CLAIM, "judge returned Claim, not an iterable of Claims"),
        (
            "judge",
            lambda *_: [CLAIM, True],
            r"judge yielded bool, not a Claim: use a function of lab.criteria, or claim\(...\)",
        ),
        ("judge", lambda *_: [], "judge yielded no claim: an experiment needs at least one"),
        ("judge", lambda *_: [CLAIM, CLAIM], "judge yielded two claims with the id 'a'"),
        ("draw", lambda *_: [], "draw returned list, not a dict of figures by name"),
    ],
)
def test_what_a_method_may_not_return_is_one_line(
    walk, store: Store, monkeypatch, method: str, answer: Callable[..., Any], line: str
):
    monkeypatch.setattr(walk, method, answer)
    with pytest.raises(ExperimentCrash, match=rf"toy.walk: {method} failed: \w+: {line}"):
        run(walk(), store=store)


def test_no_name_of_the_lab_is_a_module_too():
    """Importing the module would put it in the place of the function."""
    folder = Path(ds.lab.__file__).parent
    assert [name for name in ds.lab.__all__ if (folder / name).exists() or (folder / f"{name}.py").exists()] == []
