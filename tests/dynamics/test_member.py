"""Members whose fields are compiled in: equal ones share a program, and fields that cannot be compared are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds


class Bowl(ds.Member):
    size: int
    bent: bool = False

    def __call__(self, rate: Any) -> ds.Descent:
        return ds.Descent(jnp.ones(self.size), lambda w: jnp.sum(w**2) / 2, optax.sgd(rate), probes={"sum": jnp.sum})


def test_members_with_equal_fields_share_one_compiled_program(caplog):
    def compilations(member: Bowl, rates: list[float]) -> int:
        caplog.clear()
        with jax.log_compiles(), caplog.at_level("WARNING"):
            ds.ensemble(member, {"rate": rates}, steps=3)
        return caplog.text.count("Finished XLA compilation")

    assert compilations(Bowl(3), [0.1, 0.2]) > 0
    assert compilations(Bowl(3), [0.3, 0.4]) == 0
    assert compilations(Bowl(4), [0.3, 0.4]) > 0


def test_members_are_compared_by_their_fields():
    assert Bowl(3) == Bowl(3, bent=False)
    assert len({Bowl(3), Bowl(3), Bowl(4), Bowl(3, bent=True)}) == 3


@pytest.mark.parametrize("value", [np.ones(2), jnp.ones(2), [1, 2], {"a": 1}])
def test_a_field_that_cannot_be_compared_is_refused(value):
    class Holder(ds.Member):
        held: Any

    with pytest.raises(TypeError, match=r"Holder\.held is compiled in: .* pass arrays to the call"):
        Holder(value)


def test_a_function_made_inside_another_is_refused():
    class Holder(ds.Member):
        rule: Callable[[Any], Any]

    assert Holder(jnp.sin) == Holder(jnp.sin)
    with pytest.raises(TypeError, match=r"Holder\.rule is compiled in: it must be a function of a module"):
        Holder(lambda x: x)
