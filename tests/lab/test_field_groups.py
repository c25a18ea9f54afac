"""Groups of fields that an experiment inherits and passes on as one value."""

from __future__ import annotations

import pytest
from pydantic import Field, ValidationError

import dynascope as ds
from dynascope.lab.experiment import Fields


class Size(Fields):
    width: int = Field(8, gt=0)
    depth: int = 2


class Whole(Size):
    steps: int = 100


class Holder(ds.Member):
    size: Size


def test_a_group_is_taken_out_of_what_inherits_it():
    assert dict(Size.of(Whole(width=16))) == {"width": 16, "depth": 2}


def test_the_fields_of_a_group_are_fields_like_any_other():
    assert Whole(depth=3).model_dump() == {"width": 8, "depth": 3, "steps": 100}
    with pytest.raises(ValidationError, match="greater than 0"):
        Whole(width=0)


def test_a_member_that_holds_a_group_is_compared_by_its_fields():
    assert Holder(Size.of(Whole(steps=5))) == Holder(Size())
    assert hash(Holder(Size.of(Whole(steps=5)))) == hash(Holder(Size()))
    assert Holder(Size(depth=3)) != Holder(Size())
