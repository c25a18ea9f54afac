"""What every registered experiment must do: pass at its quick preset, and see its main claim fall in its control."""

from __future__ import annotations

import pytest

from dynascope.lab import registry
from dynascope.lab.fields import build
from dynascope.lab.run import run
from dynascope.lab.store import Store

IDS = [entry.id for entry in registry.entries()]


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_the_quick_preset_shows_the_phenomenon_and_the_control_does_not(id, tmp_path):
    experiment, store = registry.load(id), Store(tmp_path)
    shown = run(build(experiment, {}, preset="quick"), preset="quick", store=store)
    undiagnosed = [claim.id for claim in shown.claims if claim.verdict == "fails" and not claim.diagnosis]
    assert not undiagnosed, f"claims fail without a diagnosis: {undiagnosed}"
    assert shown.claims[0].verdict != "fails", "the main claim does not hold"
    assert shown.figures, "nothing is drawn"

    absent = run(build(experiment, {}, preset="quick", control=True), preset="quick", store=store, draw=False)
    assert absent.claims[0].id == shown.claims[0].id
    assert absent.claims[0].verdict == "fails", "the control does not flip the main claim"


@pytest.mark.parametrize("id", IDS)
def test_its_card_is_complete(id):
    experiment = registry.load(id)
    assert experiment.title().endswith("?"), "the docstring's first line is the question"
    assert "quick" in experiment.presets
    assert experiment.control
    assert set(experiment.cost) == {"quick", "full"}
    for preset in (None, *experiment.presets):
        build(experiment, {}, preset=preset)
    assert all(field.annotation is not None for field in experiment.model_fields.values())


def test_there_is_an_experiment_for_every_figure_of_the_concept_paper():
    assert {
        "concept.signal-order", "concept.diversity-order", "concept.transient-memorization",
        "concept.terminal-slowdown", "concept.one-layer-theory", "concept.jacobian-stages", "concept.triple-descent",
        "concept.quadruple-descent", "concept.failure-mode", "concept.initialization-breakdown",
        "concept.topological-order", "concept.two-layer-order", "concept.low-dimension",
        "concept.out-of-distribution", "concept.training-trajectory", "concept.published-figures",
    } <= set(IDS)  # fmt: skip
