"""A matplotlib figure as Plotly data: the same numbers, scales and labels, or a refusal."""

from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, TextArea

from dynascope.figures import panels
from dynascope.lab.report.interactive.convert import plotly_figure
from dynascope.lab.report.interactive.texts import as_html
from dynascope.lab.report.interactive.thinning import thinned
from dynascope.lab.report.interactive.unknown import UnknownArtist


def test_a_line_keeps_its_numbers_color_and_dashes():
    figure, axes = panels(1)
    axes.plot([0, 1, 2], [0.5, 0.25, 0.125], "--", color="#d1495b", label="loss")
    (line,) = plotly_figure(figure)["data"]
    assert (line["x"], line["y"]) == ([0, 1, 2], [0.5, 0.25, 0.125])
    assert (line["line"]["color"], line["line"]["dash"]) == ("#d1495b", "dash")


def test_a_logarithmic_axis_keeps_its_values_and_gives_its_range_as_exponents():
    figure, axes = panels(1)
    axes.semilogy([1, 2], [1e-3, 10.0])
    axes.set_ylim(1e-4, 100)
    found = plotly_figure(figure)
    assert found["data"][0]["y"] == [0.001, 10]
    assert found["layout"]["yaxis"]["type"] == "log"
    assert found["layout"]["yaxis"]["range"] == [-4, 2]


def test_a_symlog_axis_is_given_as_it_lies_with_the_same_ticks():
    figure, axes = panels(1)
    axes.plot([0, 10, 100, 1000], [0, 1, 2, 3])
    axes.set_xscale("symlog")
    found = plotly_figure(figure)
    x = found["data"][0]["x"]
    assert x[2] - x[1] == pytest.approx(x[3] - x[2])  # decades are equal lengths
    assert found["layout"]["xaxis"]["tickmode"] == "array"


def test_bars_keep_their_heights_and_places():
    figure, axes = panels(1)
    axes.bar([0, 1, 2], [3.0, 1.5, 2.0], width=0.5)
    (bar,) = plotly_figure(figure)["data"]
    assert (bar["type"], bar["x"], bar["y"], bar["width"]) == ("bar", [0, 1, 2], [3, 1.5, 2], 0.5)


@pytest.mark.parametrize("origin", ["upper", "lower"])
def test_an_image_keeps_its_values_and_which_way_is_up(origin: str):
    figure, axes = panels(1)
    values = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    axes.imshow(values, origin=origin, vmin=0, vmax=5)
    found = plotly_figure(figure)
    (image,) = found["data"]
    assert np.array_equal(image["z"], values)
    assert (image["x"], image["y"], image["zmin"], image["zmax"]) == ([0, 1, 2], [0, 1], 0, 5)
    low, high = found["layout"]["yaxis"]["range"]
    assert (low > high) == (origin == "upper")


def test_a_mesh_keeps_the_edges_of_its_cells():
    figure, axes = panels(1)
    axes.pcolormesh([0, 1, 3], [0, 2, 4], [[1.0, 2.0], [3.0, 4.0]])
    (mesh,) = plotly_figure(figure)["data"]
    assert (mesh["x"], mesh["y"], mesh["z"]) == ([0, 1, 3], [0, 2, 4], [[1, 2], [3, 4]])


def test_error_bars_and_bands_reach_where_they_did():
    figure, (left, right) = panels(2)
    left.errorbar([1.0], [2.0], yerr=0.5)
    right.fill_between([0, 1], [0, 0], [1, 2])
    traces = plotly_figure(figure)["data"]
    assert [1.5, 2.5] in [trace["y"] for trace in traces]
    band = next(trace for trace in traces if trace.get("fill") == "toself")
    assert (min(band["y"]), max(band["y"])) == (0, 2)


def test_panels_keep_their_places_and_lines_from_edge_to_edge_are_shapes():
    figure, (left, right) = panels(2)
    left.axhline(0.5)
    right.axvspan(0.2, 0.4)
    layout = plotly_figure(figure)["layout"]
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]
    line, box = layout["shapes"]
    assert (line["y0"], line["y1"], line["xref"]) == (0.5, 0.5, "x domain")
    assert (box["x0"], box["x1"], box["yref"]) == (0.2, 0.4, "y2 domain")


def test_a_legend_names_the_curves_that_it_named():
    figure, axes = panels(1)
    axes.plot([0, 1], label="seen")
    axes.plot([1, 0], label="_hidden")
    axes.legend()
    shown = [trace["name"] for trace in plotly_figure(figure)["data"] if trace["showlegend"]]
    assert shown == ["seen"]


def test_what_is_not_finite_is_a_gap_and_the_json_is_strict():
    figure, axes = panels(1)
    axes.plot([0, 1, 2], [1.0, np.nan, np.inf])
    found = plotly_figure(figure)
    assert found["data"][0]["y"] == [1, None, None]
    json.dumps(found, allow_nan=False)


def test_a_long_curve_is_thinned_and_keeps_its_spike():
    x = np.arange(100_000.0)
    y = np.zeros_like(x)
    y[54_321] = 7.0
    kept = thinned(x, y, 400)
    assert len(kept) <= 500
    assert 54_321 in kept


def largest_gap(x: np.ndarray, y: np.ndarray, kept: np.ndarray) -> float:
    """The largest distance of points of a curve from the segments between those that were kept."""
    ends = np.linspace(0, len(kept) - 1, 20_000)
    drawn = np.stack([np.interp(ends, np.arange(len(kept)), each[kept]) for each in (x, y)], -1)
    some = np.unique(np.geomspace(1, len(x), 400).astype(int)) - 1
    return max(float(np.hypot(*(drawn - point).T).min()) for point in np.stack([x, y], -1)[some])


def test_a_curve_on_a_logarithmic_axis_is_thinned_as_it_lies_also_from_step_0():
    steps = np.arange(100_000.0)
    with np.errstate(divide="ignore"):
        x, y = np.log10(steps), np.exp(-steps / 30)
    kept = thinned(x, y, 400)
    assert kept[0] == 0, "step 0 is kept, though it is not on the page"
    assert largest_gap(x[1:], y[1:], kept[1:] - 1) < 0.003 * np.ptp(x[1:])


def test_a_path_that_slows_down_is_thinned_as_it_lies():
    steps = np.arange(4000.0)
    x, y = 1 - np.exp(-steps / 20), 1 - np.exp(-steps / 60)  # nearly all of its points are at its end
    kept = thinned(x, y, 60)
    assert len(kept) <= 60
    assert largest_gap(x, y, kept) < 0.003


def test_a_rough_path_is_thinned_along_its_way():
    steps = np.arange(20_000.0)
    size = np.exp(-steps / 300)  # all but the first points are at the origin
    kept = thinned(size * np.cos(2 * steps), size * np.sin(2 * steps), 120)
    assert len(kept) <= 150
    assert np.sum(kept < 1500) > 60


def test_an_artist_that_is_not_known_is_refused():
    figure = Figure()
    axes = figure.add_subplot()
    axes.add_artist(AnnotationBbox(TextArea("?"), (0.5, 0.5)))
    with pytest.raises(UnknownArtist, match="AnnotationBbox"):
        plotly_figure(figure)


def test_texts_are_escaped_and_formulas_written_out():
    assert as_html("a < b") == "a &lt; b"
    assert as_html(r"$\sigma_i / \sigma_1$ of $W_Q^T$") == "σ<sub>i</sub> / σ<sub>1</sub> of W<sub>Q</sub><sup>T</sup>"
    with pytest.raises(UnknownArtist, match="frac"):
        as_html(r"$\frac{1}{2}$")
