"""Experiments on trained transformers: which trainings they share, and how curves and maps are reduced."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.recall.ablations import Ablations
from dynascope.experiments.recall.association_first import AssociationFirst
from dynascope.experiments.recall.attention import Attention, _even
from dynascope.experiments.recall.fine_tuning import FineTuning
from dynascope.experiments.recall.memory_maps import MemoryMaps, _strongest
from dynascope.experiments.recall.training import RecallTraining, recorded
from dynascope.experiments.recall.training_curves import crossing
from dynascope.experiments.recall.value_rank import ValueRank
from dynascope.lab.fields import build

TINY = {"tokens": 6, "length": 8, "dim": 4, "hidden": 8, "batch": 4, "steps": 12, "tests": 8, "seeds": 2}


@pytest.mark.parametrize("preset", [None, "quick", "small"])
def test_four_experiments_look_at_one_training(preset):
    """In every preset and in the full setting; so do the controls of two and two of them. In quick the ablations have
    more seeds of it."""

    def trainings(kind, control: bool = False):
        found = build(kind, {}, preset=preset, control=control).measurements()
        if kind is Ablations and preset == "quick":
            return {name: training.model_copy(update={"seeds": 3}) for name, training in found.items()}
        return found

    one = trainings(AssociationFirst)["trained"]
    assert trainings(Attention)["trained"] == one
    assert trainings(MemoryMaps)["one"] == one
    assert trainings(Ablations)["mlp, mlp"] == one
    assert trainings(AssociationFirst, True)["trained"] == trainings(Ablations, True)["mlp, mlp"]
    assert trainings(Attention, True)["trained"] == trainings(MemoryMaps, True)["one"]
    assert trainings(ValueRank, True) == trainings(ValueRank), "its control looks at the same training"
    assert one.model_dump() == RecallTraining(**one.model_dump()).model_dump()


def test_the_task_has_the_statistics_of_the_most_frequent_characters():
    task = RecallTraining(**TINY).task(0.5)
    assert (task.size, task.noise, task.vocabulary, len(task.triggers)) == (6, 6, 7, 1)
    full = RecallTraining().task(0.5)
    assert (full.size, full.triggers) == (65, (1,)), "the space"
    assert RecallTraining(triggers=5).task(0.5).triggers == (1, 39, 43, 53, 58), "as in Figure 4.8"


@pytest.fixture(scope="module")
def tuned() -> xr.Dataset:
    """A tiny training without noise, and then with it."""
    return RecallTraining(**TINY, ranks=(0, 2), clean_first=True).measure(3)


def test_a_training_records_everything_that_is_looked_at(tuned):
    assert tuned.without_correct.dims == ("seed", "step", "dropped")
    assert tuned.cut_noise.dims == ("seed", "step", "weight", "rank")
    assert tuned.maps_match.shape == (2, 1, 7, 7)
    assert tuned.maps_first.shape == (2, 1, 8, 8)
    assert tuned.step.values.tolist() == recorded(12)
    assert tuned.seed.values.tolist() == [300_000, 300_001]
    np.testing.assert_allclose(tuned.seen_split.sum(("predicted", "label")), 1, rtol=1e-6)


def test_rank_0_of_the_second_mlp_is_the_model_without_it(tuned):
    cut = tuned.sel(rank=0).isel(weight=0)
    dropped = tuned.sel(dropped="second")
    np.testing.assert_allclose(cut.cut_clean_loss, dropped.without_clean_loss, rtol=1e-4)


def test_fine_tuning_begins_where_the_training_without_noise_ended(tuned):
    """The same two trainings, one after the other, have the same end as the start of the second."""
    clean = RecallTraining(**TINY, ranks=(0, 2), alpha=0.0).measure(3)
    for name in ("without_correct", "seen_on_target", "seen_margin"):
        np.testing.assert_allclose(tuned[name].isel(step=0), clean[name].isel(step=-1), rtol=1e-4, atol=1e-6)


def test_a_crossing_is_the_first_step_above_a_level_and_else_the_last_one():
    curves = xr.DataArray([[0.0, 1.0, 3.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]], dims=("seed", "step"))
    curves = curves.assign_coords(step=[0, 10, 100])
    assert crossing(curves, 0.5).values.tolist() == [10.0, 100.0, 1.0]


def test_the_strongest_entries_are_compared_with_the_diagonal_of_the_triggers():
    match = np.zeros((4, 4))
    match[1, 1], match[2, 2], match[0, 3] = 5.0, 1.0, 3.0
    assert _strongest(match, [1]) == 1.0
    assert _strongest(match, [1, 2]) == 0.5
    assert _strongest(match, [1, 2, 3]) == pytest.approx(2 / 3)


def test_even_attention_to_the_token_before():
    assert _even(3) == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_the_judges_tell_a_model_that_recalls_from_one_that_does_not():
    """From reduced numbers alone, without a training."""
    tuning = FineTuning()
    base = dict.fromkeys(("on_target", "first_on_noise", "first_on_target"), 0.5) | {"on_noise": 0.02, "after": 0.9}
    base |= {"first_after": 0.9, "first_correct": 0.95, "predicted_noise": 0.5, "first_predicted_noise": 0.0}
    base |= {"predicted_noise_few": 0.95}
    each = {name: ("seed", np.full(3, value)) for name, value in base.items()}
    each |= {name: (("seed", "dropped"), np.full((3, 3), 0.5)) for name in ("correct", "noise")}
    good = xr.Dataset(each, {"dropped": ["nothing", "first", "second"]})
    assert {claim.verdict for claim in tuning.judge(good)} == {"holds"}
    bad = good.assign(on_noise=good.on_noise + 0.4)
    assert [claim.id for claim in tuning.judge(bad) if claim.verdict == "fails"] == ["avoids-noise"]
