"""Fields that leave an experiment nothing to measure or to judge: one line before anything runs."""

import pytest

from dynascope.lab.fields import FieldError, build
from dynascope.lab.registry import load

REFUSED = [
    ("edge.decay-sharpens", {"drops": [400], "steps": "400"}, "drops must be one step or more between 0 and steps"),
    ("edge.factorization-bifurcation", {"lowest": "2", "highest": "1"}, "lowest must be below highest"),
    ("edge.factorization-bifurcation", {"steps": "1"}, "steps must be an integer ≥ 64"),
    ("edge.momentum", {"heavy_ball_rates": [-1]}, "numbers > 0; its item 1 is -1"),
    ("edge.momentum", {"nesterov_momenta": [0.5]}, "must have 1 entries, one for each of nesterov_momenta; got 2"),
    ("edge.adaptive", {"adam_rates": [1e-3]}, "adam_rates must have 2 entries, one for each of adam_momenta; got 1"),
    ("edge.adaptive", {"rmsprop_rates": [0]}, "numbers > 0; its item 1 is 0"),
    ("concept.terminal-slowdown", {"activation": "tanh"}, "the network must be linear without biases"),
    ("concept.image-data", {"pixels": "1"}, "pixels must be an integer from 2 to 1024"),
    ("catapult.batches", {"steps": "19"}, "steps must be an integer ≥ 20"),
    ("catapult.errata", {"width": "99"}, "width must be an integer ≥ 100"),
    ("rank.language", {"since": "10", "steps": "10"}, "since must be less than steps"),
    ("rank.vision", {"epochs": "2"}, "warmup_epochs must be less than epochs=2; got 2"),
    ("rank.vision", {"pixels": "32"}, "pixels is for data=folder only"),
]


@pytest.mark.parametrize(("identity", "fields", "said"), REFUSED)
def test_fields_that_leave_nothing_to_judge_are_refused(identity, fields, said):
    kind = load(identity)
    build(kind, {}, "quick")
    with pytest.raises(FieldError, match=said):
        build(kind, fields, "quick")


def test_a_folder_of_pictures_that_is_not_named_is_asked_for():
    experiment = build(load("rank.vision"), {"data": "folder"}, "quick")
    with pytest.raises(FileNotFoundError, match="data=folder needs folder="):
        experiment.data_sets()
