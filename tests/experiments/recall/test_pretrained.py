"""What the experiments on pretrained models make of a measurement: planted ones, without a model."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.recall.arithmetic import Arithmetic
from dynascope.experiments.recall.pretrained import DEMO_WORDS, SHARES, SMOLLM2, Pretrained

LAYERS, MATRICES, RANKS = (27, 28, 29, 30), ("gate", "up", "out"), (5, 115)


def planted(gain: float) -> xr.DataTree:
    """Probabilities of the table that another program measured, and on unseen prompts a ratio that rises by `gain`."""
    nodes = {}
    for task, words in (("facts", 2), ("objects", 3)):
        cut = np.full((4, 3, 2, 5, words), 0.1)
        full = np.full((5, words), 0.2)
        rows = {key: (row[:2] if task == "facts" else (row[2], 0.066)) for key, row in SMOLLM2.items()}
        for key, (target, the) in rows.items():
            into = full if key == "full" else cut[LAYERS.index(key[0]), MATRICES.index(key[1]), RANKS.index(key[2])]
            into[:, 0], into[:, -1] = target, the
        cut[3, :, :, :, 0] = 0.001
        coords = {"layer": list(LAYERS), "matrix": list(MATRICES), "rank": list(RANKS)}
        dims = ("layer", "matrix", "rank", "prompt", "word")
        nodes[task] = xr.Dataset({"probability": (dims, cut), "full": (dims[-2:], full)}, coords)
        whole = np.tile(np.array([0.3, 0.05, 0.4])[[0, 2] if words == 2 else [0, 1, 2]], (6, 1))
        other = whole.copy()
        other[:, -1] /= gain
        nodes[f"unseen_{task}"] = xr.Dataset({"full": (("prompt", "word"), whole), "cut": (("prompt", "word"), other)})
    tokens = {"model": ["full", "cut"], "token": [" the", " Spain"]}
    top = np.array([[0.4, 0.1], [0.1, 0.3]])
    nodes["madrid"] = xr.Dataset({"probability": (("model", "token"), top), "place": ("model", [2, 1])}, tokens)
    demo = np.full((4, len(SHARES), len(DEMO_WORDS)), 0.01)
    whole = np.full(len(DEMO_WORDS), 0.1)
    labels = {"layer": list(LAYERS), "rank": [int(576 * share) for share in SHARES]}
    nodes["demo"] = xr.Dataset({"probability": (("layer", "rank", "word"), demo), "full": ("word", whole)}, labels)
    places = xr.DataArray([[29, 1, 115], [29, 1, 5]], dims=("task", "part"), coords={"task": ["facts", "objects"]})
    nodes["found"] = xr.Dataset({"place": places, "layers": 30})
    return xr.DataTree.from_dict(nodes)


def verdicts(gain: float) -> dict[str, str]:
    experiment = Pretrained()
    reduced = experiment.reduce(planted(gain), None)
    return {claim.id: claim.verdict for claim in experiment.judge(reduced)}


def test_a_planted_effect_is_found():
    assert verdicts(4.0) == dict.fromkeys(
        ("unseen", "late", "the-falls", "object-stays", "madrid", "shares", "last-layer", "smollm2"), "holds"
    )


def test_a_gain_below_three_is_not_enough():
    found = verdicts(1.5)
    assert found["unseen"] == found["the-falls"] == "fails"
    assert found["smollm2"] == "holds"


def test_probabilities_two_percent_off_are_seen():
    measured = planted(4.0)
    measured["facts"]["full"] = measured["facts"]["full"] * 1.03
    found = {claim.id: claim.verdict for claim in Pretrained().judge(Pretrained().reduce(measured, None))}
    assert found["smollm2"] == "fails"


def test_figures_are_drawn():
    measured = planted(4.0)
    figures = Pretrained().draw(measured, None, Pretrained().reduce(measured, None))
    assert list(figures) == ["layers", "effects"]


def test_its_data_are_those_of_the_model():
    assert Pretrained().data_sets() == ("smollm2",)
    assert Pretrained(model="someone/model").data_sets() == ()
    assert Arithmetic().data_sets() == ("gsm8k",)
    assert Arithmetic(model="smollm2", problems="made").data_sets() == ("smollm2",)


def answers(right: float, cut: float, count: int) -> xr.Dataset:
    draw = np.random.default_rng(0)
    values = np.stack([draw.random((4, count)) < right, draw.random((4, count)) < cut], 1)
    values[2:, 1] = values[2:, 0] & (draw.random((2, count)) < 0.5)
    found = np.where(values, 7.0, draw.integers(10, 99, values.shape))
    answer = (("shots", "model", "problem"), found)
    coords = {"shots": [1, 2, 4, 8], "model": ["whole", "cut"]}
    return xr.Dataset({"answer": answer, "wanted": ("problem", np.full(count, 7.0))}, coords)


def judged(measured: xr.Dataset) -> dict[str, str]:
    experiment = Arithmetic()
    return {claim.id: claim.verdict for claim in experiment.judge(experiment.reduce(measured, None))}


@pytest.mark.parametrize(("cut", "verdict"), [(0.7, "holds"), (0.4, "fails")])
def test_accuracies_are_compared_from_a_hundred_problems_on(cut, verdict):
    assert list(judged(answers(0.4, cut, 50))) == ["changes", "readable"]
    measured = answers(0.4, cut, 400)
    found = judged(measured)
    assert found == {"few-shots": verdict, "many-shots": "holds", "changes": "holds", "readable": "holds"}
    assert Arithmetic().draw(measured, None, Arithmetic().reduce(measured, None))


def test_a_truncation_without_effect_or_with_nothing_left_to_read_is_seen():
    measured = answers(0.4, 0.4, 400)
    same = measured.assign(answer=measured.answer.sel(model=["whole", "whole"]).assign_coords(model=["whole", "cut"]))
    assert judged(same) == {"few-shots": "fails", "many-shots": "fails", "changes": "fails", "readable": "holds"}
    silent = measured.assign(answer=measured.answer.where(measured.model == "whole"))
    assert judged(silent)["readable"] == "fails"
