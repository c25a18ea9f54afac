"""What every registered experiment must do: pass at its quick preset, and see its main claim fall in its control."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pytest

from dynascope.lab import registry
from dynascope.lab.experiment import Experiment, OptionalExperiment
from dynascope.lab.fields import build
from dynascope.lab.formatting import GPU
from dynascope.lab.netcdf import load
from dynascope.lab.places import experiments_on, places_in
from dynascope.lab.references import REFERENCES
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.tasks.data import catalog

sys.path.append(str(Path(__file__).parent))

from corrupted import cannot_fail

pytestmark = pytest.mark.usefixtures("optimized")
IDS = [entry.id for entry in registry.entries()]
EVIDENCE = json.loads((Path(__file__).parents[2] / "docs" / "evidence.json").read_text(encoding="utf-8"))
SOON = 4
"""Seconds: `make test` runs quick presets that take no longer, `make verdicts` the others."""
FIGURES = {
    "concept": "Figures 1-19",
    "edge": "Figures 3.2-3.8, B.1-B.5",
    "linearity": "Figures 2.2, 2.3",
    "catapult": "Figures 3.1-3.4, 4.2-4.7, B.1-B.13, C.1-C.12",
    "features": "Figures 4.8-4.11, C.13-C.23",
    "rank": "Figures 1-20",
    "graphs": "Figures 2.1-2.4, A.1",
    "recall": "Figures 4.3-4.14, C.1-C.6",
}
"""The figures of the documents that show a measurement of a system that is built."""


@pytest.fixture(scope="session")
def one_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One store for all, since experiments take measurements from one another's runs."""
    return Store(tmp_path_factory.mktemp("runs"))


def missing_for(id: str) -> str:
    """What an experiment needs that is not here."""
    quick = build(registry.load(id), {}, preset="quick")
    return quick.missing() if isinstance(quick, OptionalExperiment) else ""


def known_to_fail(id: str) -> set[str]:
    """The claims of the quick preset that are on record as failing."""
    keys = [key.rpartition("/") for key in registry.load(id).known_failures]
    return {claim for setting, _, claim in keys if setting in ("", "quick")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "id", [pytest.param(id, marks=pytest.mark.long) if registry.load(id).cost["quick"] > SOON else id for id in IDS]
)
def test_the_quick_preset_gives_the_verdicts_on_record_and_the_control_flips_the_main_one(id, one_store):
    experiment, store = registry.load(id), one_store
    if missing := missing_for(id):
        pytest.skip(missing)
    shown = run(build(experiment, {}, preset="quick"), preset="quick", store=store)
    assert not [claim.id for claim in shown.claims if claim.is_news], "a verdict differs from known_failures"
    failing = {claim.id for claim in shown.claims if claim.verdict == "fails"}
    assert known_to_fail(id) <= failing, "known to fail, but not judged"
    assert shown.claims[0].verdict != "fails", "the main claim does not hold"
    assert shown.figures, "nothing is drawn"
    on_page = {claim["id"]: claim["verdict"] for claim in EVIDENCE["claims"].get(id, ())}
    assert on_page == {claim.id: claim.verdict for claim in shown.claims}, "the pages are of other runs: make evidence"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vacuous = cannot_fail(build(experiment, {}, preset="quick"), load(shown.folder / "reduced.nc"))
    assert not vacuous, "these claims hold on data that say nothing"

    absent = run(build(experiment, {}, preset="quick", control=True), preset="quick", store=store, draw=False)
    assert absent.claims[0].id == shown.claims[0].id
    assert absent.claims[0].verdict == "fails", "the control does not flip the main claim"


@pytest.mark.parametrize("id", IDS)
def test_the_pages_show_the_failures_on_record_and_no_others(id):
    on_page = {claim["id"] for claim in EVIDENCE["claims"][id] if claim["verdict"] == "fails"}
    assert on_page == known_to_fail(id)


@pytest.mark.parametrize("id", IDS)
def test_its_card_is_complete(id):
    experiment = registry.load(id)
    title = experiment.title()
    assert title.endswith("?"), "the docstring's first line is the question"
    assert 20 < len(title) < 130, "the question fits a card"
    assert experiment.source.document in REFERENCES, "the document is on the list of references"
    assert places_in(experiment.source.place), "the place is one that `list --figure` finds"
    assert "quick" in experiment.presets
    changed = build(experiment, {}, preset="quick", control=True)
    assert changed != build(experiment, {}, preset="quick"), "the control changes something"
    assert set(experiment.cost) - {GPU} == {"quick", "full"}
    assert 0 < experiment.cost["quick"] <= 120
    for preset in (None, *experiment.presets):
        build(experiment, {}, preset=preset)
    settings = {key.rpartition("/")[0] for key in experiment.known_failures}
    assert settings <= {"", "full", *experiment.presets}, "what is known to fail names a setting that there is not"
    for name, field in experiment.model_fields.items():
        assert not field.is_required(), f"{name} has no default: the full setting is the document's"


@pytest.mark.parametrize("id", IDS)
def test_a_field_that_is_declared_again_keeps_its_bounds(id):
    for kind in registry.load(id).__mro__:
        for base in kind.__mro__[1:] if issubclass(kind, Experiment) else ():
            for name, inherited in getattr(base, "model_fields", {}).items():
                field = kind.model_fields[name]
                kept = field.annotation != inherited.annotation or field.metadata == inherited.metadata
                assert kept, f"{kind.__name__}.{name} has lost its bounds: change its default in `defaults`"


@pytest.mark.parametrize(("system", "figures"), FIGURES.items())
def test_every_figure_of_the_documents_has_an_experiment(system: str, figures: str):
    entries = registry.entries(f"{system}.*")
    for kind, label in places_in(figures):
        assert experiments_on(f"{kind} {label}", entries), label


PRETRAINED = ("recall.arithmetic", "recall.pretrained")
"""The experiments whose quick presets need a model that is fetched."""


def test_the_packaged_data_are_enough_for_every_quick_preset():
    inside = {entry.name for entry in catalog.entries() if entry.source == "in the package"} | {"digit-pairs"}
    for id in (id for id in IDS if id not in PRETRAINED):
        assert set(build(registry.load(id), {}, preset="quick").data_sets()) <= inside, id
