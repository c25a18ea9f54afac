"""Figures say what cannot be drawn."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from dynascope.lab.drawing import render_figures
from dynascope.lab.sweeps.figures import draw
from dynascope.lab.sweeps.gathering import Gathering


def test_a_panel_without_a_finite_value_says_so_and_the_others_do_not():
    figure = Figure(layout="constrained")
    empty, holey, logarithmic = figure.subplots(1, 3)
    x = np.array([1.0, 10.0, 100.0])
    empty.plot(x, x * np.nan)
    holey.plot(x, [1, np.nan, 2])
    logarithmic.loglog(x, x)
    render_figures(lambda: {"three": figure})
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [["no finite value"], [], []]


def test_a_logarithmic_panel_without_a_positive_value_is_drawn_without_a_warning():
    figure = Figure(layout="constrained")
    figure.subplots().loglog([1, 10], [0, -1])
    assert "figures/one.png" in render_figures(lambda: {"one": figure})
    assert [text.get_text() for text in figure.axes[0].texts] == ["no positive value"]


def test_an_axis_of_integers_has_integers_as_ticks(monkeypatch):
    gathered, made = Gathering({"depth": [1, 2]}, 1), []
    for number in range(2):
        claim = {"id": "up", "statement": "", "verdict": "holds", "measured": 1}
        gathered.add(number, [claim], None)
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: made.append(self))
    list(draw(gathered.dataset()))
    ticks = made[0].axes[0].get_xticks()
    assert all(tick == round(tick) for tick in ticks)
