"""The shared forms of figures."""

import matplotlib as mpl
import pytest

from dynascope.figures import HOUSE_STYLE, PALETTE, panels


def test_a_short_row_of_panels_stays_a_row():
    figure, axes = panels(3)
    assert axes.shape == (3,)
    assert figure.get_size_inches() == pytest.approx((13.2, 3.6))


@pytest.mark.parametrize(("columns", "across", "down"), [(4, 2, 2), (5, 3, 2), (7, 3, 3)])
def test_a_wide_row_of_panels_is_broken_into_several(columns: int, across: int, down: int):
    figure, axes = panels(columns, sharey=True)
    assert axes.shape == (columns,)
    assert list(axes) == figure.axes
    assert figure.get_size_inches() == pytest.approx((4.4 * across, 3.6 * down))


def test_a_broken_row_keeps_the_shape_that_was_asked_for():
    _, axes = panels(4, squeeze=False)
    assert axes.shape == (1, 4)


def test_figures_without_colors_of_their_own_get_those_of_the_house():
    with mpl.rc_context(HOUSE_STYLE):
        _, axes = panels(1)
        lines = [axes.plot([0, 1])[0] for _ in PALETTE]
    assert [line.get_color() for line in lines] == list(PALETTE)
