"""The form of an experiment: a control for each field, with a range that makes sense."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, PositiveInt

from dynascope.lab import registry
from dynascope.live.forms import field_form, form


class Fields(BaseModel):
    whole: PositiveInt = 40
    small: float = Field(0.1, gt=0)
    share: float = Field(0.5, ge=0, le=1)
    shift: float = -3.0
    none: PositiveInt | None = None
    inside: Annotated[float, Field(gt=0)] | None = 2.0
    zero: int = Field(0, ge=0)
    flag: bool = False
    kind: Literal["a", "b"] | None = None
    several: tuple[float, ...] = (1.0,)
    either: Literal["auto"] | int = "auto"


def control(name: str) -> dict:
    return field_form(name, Fields.model_fields[name])


@pytest.mark.parametrize(
    ("name", "low", "high", "log"),
    [
        ("whole", 4, 400, True),
        ("small", 0.01, 1.0, True),
        ("share", 0, 1, False),
        ("shift", -6.0, 6.0, False),
        ("none", 1, 10, True),
        ("inside", 0.2, 20.0, True),
        ("zero", 0, 10, False),
    ],
)
def test_a_number_has_a_slider_around_its_default_inside_its_limits(name, low, high, log):
    found = control(name)
    assert (found["control"], found["low"], found["high"], found["log"]) == ("number", low, high, log)


def test_choices_are_listed_and_the_rest_is_typed():
    assert control("flag")["options"] == ["true", "false"]
    assert control("kind")["options"] == ["a", "b", "null"]
    assert control("several")["control"] == "text"
    assert control("either")["control"] == "text"


def test_every_experiment_has_a_form_whose_settings_are_what_the_command_would_run():
    for id in ("concept.signal-order", "tiny.spiral", "edge.product"):
        kind = registry.load(id)
        found = form(kind)
        names = [field["name"] for field in found["fields"]]
        assert names == list(kind.model_fields)
        for plain, control in found["presets"].values():
            assert list(plain) == list(control) == names
        assert found["presets"]["full"][0] != found["presets"]["full"][1], "the control changes something"
        for field in found["fields"]:
            if field["control"] == "number":
                assert field["low"] < field["high"], (id, field)
            elif field["control"] == "choice":
                assert found["presets"]["full"][0][field["name"]] in field["options"], (id, field)
