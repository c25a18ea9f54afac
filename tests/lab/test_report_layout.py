"""A figure laid out again: for a card of 335 px, and in one column for a phone."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from dynascope.figures import legend_beside, panels
from dynascope.lab.drawing import card_panel, drawing, render_figures
from dynascope.lab.report.layout import CARD, NARROW, alone, find_panels, stack
from dynascope.lab.report.layout.extents import extent
from dynascope.lab.report.pictures import small_files

LEGIBLE = 9.0
"""Pixels of the smallest letters."""


@pytest.fixture
def figure() -> Figure:
    """Three panels that share an axis, with a color bar, a small text, and a legend beside them."""
    with drawing():
        figure, axes = panels(3, sharey=True)
        for number, panel in enumerate(axes):
            panel.plot([0, 1, 2], [0, number, 1], label=f"curve {number}")
            panel.set(title=f"Panel {number}", xlabel="step")
            panel.text(1, 0.5, "small", fontsize=4)
        axes[0].set_ylabel("the quantity that all of the panels share")
        legend_beside(axes[0])
        figure.colorbar(axes[2].imshow([[0.0, 1.0]], aspect="auto"), ax=axes[2])
        return figure


def visible_letters(figure: Figure) -> list[float]:
    texts = [text for axes in figure.axes if axes.get_visible() for text in axes.findobj(Text)]
    return [float(text.get_fontsize()) for text in texts if text.get_visible() and text.get_text().strip()]


def test_the_letters_of_a_card_have_nine_pixels_at_335(figure: Figure):
    alone(figure, 1)
    figure.draw_without_rendering()
    pixels_per_point = 335 / CARD[0] / 72
    letters = visible_letters(figure)
    assert len(letters) > 5
    assert min(letters) * pixels_per_point >= LEGIBLE


def test_the_letters_of_a_stack_have_nine_pixels_at_350(figure: Figure):
    stack(figure)
    figure.draw_without_rendering()
    assert min(visible_letters(figure)) * 350 / NARROW / 72 >= LEGIBLE


def test_a_card_shows_one_panel_with_the_label_that_it_shared(figure: Figure):
    alone(figure, 1)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == ["Panel 1"]
    assert "quantity" in shown[0].get_ylabel()


def test_a_stack_has_its_panels_below_one_another_inside_the_figure(figure: Figure):
    stack(figure)
    boxes = [extent(figure, *panel.plots, *panel.bars, tight=True) for panel in find_panels(figure)]
    assert all(one.bottom >= other.top for one, other in itertools.pairwise(boxes))
    assert min(box.left for box in boxes) > -0.1
    assert max(box.right for box in boxes) < NARROW + 0.1
    assert boxes[-1].bottom > -0.01


def test_twins_and_color_bars_belong_to_their_panel(figure: Figure):
    figure.axes[0].twinx()
    found = find_panels(figure)
    assert len(found) == 3
    assert (len(found[0].over), len(found[2].bars)) == (1, 1)


def test_a_card_names_a_figure_and_a_panel(figure: Figure):
    assert card_panel("", {"a": figure}) == ("a", 0)
    assert card_panel(("a", 3), {"a": figure}) == ("a", 3)
    with pytest.raises(ValueError, match="figure 'b', which draw does not return; it returns a"):
        card_panel("b", {"a": figure})


def test_a_card_shows_the_last_panel_if_there_are_fewer(figure: Figure):
    alone(figure, 7)
    assert next(axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()) == "Panel 2"


def test_a_logarithmic_axis_of_a_diverged_run_can_be_drawn():
    def draw():
        figure, axes = panels(2)
        axes[0].semilogy([0, 1, 2], [1e-3, 1.0, 1e299])
        axes[1].loglog([1e-290, 1.0], [1e-3, 2e-3])
        return {"wild": figure}

    assert render_figures(draw)["figures/wild.png"]


def test_the_pictures_are_small(figure: Figure):
    files = small_files(figure, panel=0)
    assert sorted(files) == ["card.webp", "narrow.webp"]
    assert max(len(data) for data in files.values()) < 30_000


def test_a_footnote_takes_no_room_on_a_card():
    heights = []
    for note in ("", "a footnote"):
        with drawing():
            figure, axes = panels(1)
            axes.plot([0, 1])
            axes.text(0, -0.24, note, transform=axes.transAxes)
            alone(figure)
            heights.append(axes.get_position().height)
    assert heights[0] == pytest.approx(heights[1])
