"""Experiments that change the defaults of inherited fields."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from dynascope.lab.experiment import Experiment


def changed(base: type[Experiment], **defaults: Any) -> Any:
    """A class with other defaults."""
    return type("Changed", (base,), {"defaults": defaults, "__module__": __name__})


def test_a_default_is_changed_and_the_base_keeps_its_own(walk):
    assert (changed(walk, steps=200)().steps, walk().steps) == (200, 50)


def test_bounds_and_descriptions_are_inherited(walk):
    longer, inherited = changed(walk, steps=200), walk.model_fields["steps"]
    field = longer.model_fields["steps"]
    assert (field.metadata, field.description) == (inherited.metadata, inherited.description)
    with pytest.raises(ValidationError, match="greater than 0"):
        longer(steps=-1)


def test_changed_defaults_are_inherited_and_of_the_type_of_their_field(walk):
    steeper = changed(changed(walk, steps=200), drift=3)()
    assert (steeper.steps, repr(steeper.drift)) == (200, "3.0")


def test_a_default_that_the_field_does_not_take_is_refused_when_the_class_is_made(walk):
    with pytest.raises(TypeError, match=r"Changed\.defaults has steps=-1: Input should be greater than 0"):
        changed(walk, steps=-1)


def test_a_default_of_no_field_is_refused_when_the_class_is_made(walk):
    with pytest.raises(TypeError, match=r"Changed\.defaults has 'step', which is not a field"):
        changed(walk, step=1)
