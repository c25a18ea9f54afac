"""Every experiment at the shape of its full setting, and of each preset of another shape, is judged and drawn.

The sizes are tiny and the data noise: what the claims say is of no interest here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.axes import Axes

from dynascope.lab import registry
from dynascope.lab.drawing import card_panel, lay_out, open_figures
from dynascope.lab.experiment import Experiment, OptionalExperiment
from dynascope.lab.netcdf import load
from dynascope.lab.run import run
from dynascope.lab.store import Store

sys.path.insert(0, str(Path(__file__).parent))
from noise_data import write_noise
from shapes import AT_FULL_SIZE, tiny

SOON = {
    "catapult.general-quadratic",
    "catapult.generalization",
    "catapult.gradient-descent",
    "catapult.multiple",
    "catapult.top-eigenspace",
    "concept.diversity-order",
    "concept.terminal-slowdown",
    "concept.training-trajectory",
    "concept.triple-descent",
    "edge.period-doubling",
    "features.full-rank",
    "graphs.errata",
    "graphs.graph-classes",
    "graphs.irreducible-error",
    "graphs.rooted-classes",
    "graphs.small-graphs",
    "recall.errata",
}
"""The full settings that `make test` runs: those that take two or three seconds, unless it runs the quick preset of the
same shape already. `make verdicts` runs all."""


def settings() -> Iterator[object]:
    """The full setting of each experiment, and those of its presets that differ from it in more than sizes."""
    for entry in registry.entries():
        kind, seen = registry.load(entry), []
        for preset in ("full", *(name for name in kind.presets if name != "quick")):
            experiment = tiny(kind, preset)
            if experiment not in seen:
                long = preset != "full" or kind.id not in SOON
                yield pytest.param(experiment, preset, id=f"{kind.id}-{preset}", marks=[pytest.mark.long] * long)
                seen.append(experiment)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for all, since experiments share measurements, while every data set is noise."""
    folder = tmp_path_factory.mktemp("shapes")
    write_noise(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DYNASCOPE_DATA", str(folder / "data"))
        patch.chdir(folder / "data")
        yield Store(folder / "runs")


@pytest.mark.parametrize(("experiment", "preset"), list(settings()))
def test_a_setting_of_this_shape_is_judged_and_drawn(experiment: Experiment, preset: str, store: Store):
    if isinstance(experiment, OptionalExperiment) and (missing := experiment.missing()):
        pytest.skip(missing)
    stored = run(experiment, store=store, draw=False)
    claims = {claim.id for claim in stored.claims}
    known = [key.rpartition("/") for key in experiment.known_failures]
    expected = {claim for setting, _, claim in known if setting in ("", preset)}
    expected -= {claim for claim in expected if f"{experiment.id}/{claim}" in AT_FULL_SIZE}
    assert expected <= claims, "known to fail, but not judged"

    files = (stored.folder / name for name in ("measured.nc", "predicted.nc", "reduced.nc"))
    data = [load(file) if file.exists() else None for file in files]
    with open_figures(lambda: experiment.draw(*data)) as figures:
        assert figures, "nothing is drawn"
        card_panel(experiment.card, figures)
        for figure in figures.values():
            lay_out(figure)
        assert not [axes.get_title() for figure in figures.values() for axes in figure.axes if is_empty(axes)]


def is_empty(axes: Axes) -> bool:
    """Whether a panel shows its frame and nothing inside."""
    return axes.get_visible() and axes.axison and not axes.has_data()
