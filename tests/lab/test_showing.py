"""Progress of trainings that run outside of the lab."""

from __future__ import annotations

import jax.numpy as jnp
import optax
import pytest

import dynascope as ds
from dynascope.lab import showing


class Cell:
    """The output of a notebook's cell, by the protocol of IPython's `display`."""

    def __init__(self):
        self.shown: list[dict[str, str]] = []

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(data)
        return self

    def update(self, data, *, raw):
        assert raw
        self.shown.append(data)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    monkeypatch.setattr(showing, "_notebook_display", lambda: cell.display)
    monkeypatch.setattr(showing, "EVERY", 0.0)
    return cell


def square(w):
    return jnp.sum(w**2)


def test_a_cell_has_one_line_that_goes_when_the_work_is_done(cell: Cell):
    with ds.lab.show_progress("descending"):
        ds.descend(jnp.ones(2), square, optax.sgd(0.1), steps=40)
    texts = [data["text/plain"] for data in cell.shown]
    assert texts[0] == "descending: 1 s, starting"
    assert texts[-2].startswith("descending ████████████████████ 40 of 40 steps")
    assert texts[-1] == ""
    assert cell.shown[0]["text/html"] == "<code>descending: 1 s, starting</code>"


def test_models_and_checkpoints_are_counted(cell: Cell):
    with ds.lab.show_progress():
        ds.observe([jnp.ones(2), jnp.zeros(2)], square)
    texts = " ".join(data["text/plain"] for data in cell.shown)
    assert "0 of 2 models" in texts
    assert "1 of 2 models" in texts


def test_the_line_goes_after_an_error_too(cell: Cell):
    def fail():
        with ds.lab.show_progress():
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert cell.shown[-1]["text/plain"] == ""


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]):
    with ds.lab.show_progress():
        ds.descend(jnp.ones(2), square, optax.sgd(0.1), steps=4)
    assert capsys.readouterr() == ("", "")
