"""From words to fields, and one line for each thing that is wrong with them."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field, model_validator

from dynascope.lab.errors import UsageError
from dynascope.lab.fields import assignment, build, grid_axis
from dynascope.lab.terminal import fields_table

SCALES = "a list of 1 to 3 numbers > 0 and < 1"


def test_values_are_json_where_they_are_json():
    assert assignment("a=1e-3") == ("a", 1e-3)
    assert assignment("a=[[1, 2], [3]]") == ("a", [[1, 2], [3]])
    assert assignment("a=true") == ("a", True)
    assert assignment("a=linear") == ("a", "linear")
    assert assignment("a=b=c") == ("a", "b=c")
    with pytest.raises(UsageError, match="'drift' is not of the form key=value"):
        assignment("drift")


def test_preset_then_control_then_changes(walk):
    assert build(walk, {}).steps == 50
    assert build(walk, {}, "quick").steps == 20
    assert build(walk, {}, "full").steps == 50
    assert build(walk, {"steps": 7}, "quick").steps == 7
    control = build(walk, {}, "quick", control=True)
    assert (control.steps, control.drift) == (20, 0.0)


@pytest.mark.parametrize(
    ("changes", "preset", "line"),
    [
        (
            {"drfit": 1},
            None,
            "toy.walk has no field 'drfit'; did you mean 'drift'? its fields: precision, steps",
        ),
        ({"steps": 0}, None, "toy.walk: steps must be an integer ≥ 1; got 0"),
        ({"steps": 1.5}, None, "toy.walk: steps must be an integer ≥ 1; got 1.5"),
        ({"drift": "fast"}, None, "toy.walk: drift must be a number; got 'fast'"),
        ({"noise": "nromal"}, None, "toy.walk: noise must be normal or uniform; got 'nromal'; did you mean 'normal'?"),
        ({}, "quikc", "toy.walk has no preset 'quikc'; it has quick, full; did you mean 'quick'?"),
    ],
)
def test_what_is_wrong_is_one_line(walk, changes, preset, line):
    with pytest.raises(UsageError) as caught:
        build(walk, changes, preset)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


def test_two_wrong_fields_are_two_lines(walk):
    with pytest.raises(UsageError) as caught:
        build(walk, {"steps": -1, "drift": "x"})
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("drift=0:1:5", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("drift=0.01:1:3:log", [0.01, 0.1, 1.0]),
        ("drift=2:2:1", [2.0]),
        ("steps=1:10:4", [1, 4, 7, 10]),
        ("steps=4:64:5:log", [4, 8, 16, 32, 64]),
        ("drift=1,2.5", [1.0, 2.5]),
        ("noise=normal,uniform", ["normal", "uniform"]),
    ],
)
def test_a_grid_is_a_range_or_a_list(walk, text, values):
    key, found = grid_axis(walk, text)
    assert key == text.partition("=")[0]
    assert found == values


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("drift", "is not of the form key=a:b:n"),
        ("drfit=0:1:2", "did you mean 'drift'"),
        ("drift=0:1", "a range is start:stop:count"),
        ("drift=0:1:2:lin", "a range is start:stop:count"),
        ("drift=0:1:0", "count must be from 1 to 1,000,000"),
        ("drift=0:1:3:log", "must be positive"),
        ("drift=a,b", "toy.walk: grid drift must be a number; got 'a'"),
        ("steps=-1:5:3", "grid steps must be an integer ≥ 1; got -1"),
        ("steps=1:3:9", "steps takes integers, and this range has 1.25; give a count with whole steps, or list them"),
        ("noise=normal,loud", "grid noise must be normal or uniform; got 'loud'"),
    ],
)
def test_a_wrong_grid_is_one_line(walk, text, line):
    with pytest.raises(UsageError) as caught:
        grid_axis(walk, text)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def ladder(walk):
    class Ladder(walk):
        """Does a walk go on with a list of limited length among its fields?"""

        scales: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field((0.1,), min_length=1, max_length=3)

    return Ladder


def test_a_wrong_item_of_a_list_is_one_line(ladder):
    for given, got in (
        ([0.5, 0], "its item 2 is 0"),
        ("", "got ''"),
        ([0.1] * 4, "got [0.1, 0.1, 0.1, 0.1]"),
    ):
        line = f"scales must be {SCALES}; {got}"
        with pytest.raises(UsageError) as caught:
            build(ladder, {"scales": given})
        assert str(caught.value).endswith(line)
        assert "\n" not in str(caught.value)


def test_limits_of_a_list_are_shown_as_a_person_would_write_them(ladder):
    cells = list(fields_table(ladder).columns[1].cells)
    assert SCALES.removeprefix("a ") in [str(cell).replace("\\", "") for cell in cells]


def test_what_an_experiment_says_of_several_fields_is_all_of_the_line(walk):
    class Pair(walk):
        low: int = 0
        high: int = 1

        @model_validator(mode="after")
        def ordered(self):
            if self.low >= self.high:
                raise ValueError(f"low must be below high; got low={self.low}, high={self.high}")
            return self

    with pytest.raises(UsageError) as caught:
        build(Pair, {"low": 3})
    assert str(caught.value) == "toy.walk: low must be below high; got low=3, high=1"
