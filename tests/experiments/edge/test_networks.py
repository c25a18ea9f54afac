"""edge.mlp-alignment and edge.decay-sharpens: their data, their statistics and their learning rates."""

from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.edge.decay_sharpens import DecaySharpens
from dynascope.experiments.edge.mlp_alignment import MlpAlignment
from dynascope.tasks.data import images

TINY = {"data": "digits", "samples": 20, "seeds": 1, "width": 3}


def test_nothing_takes_the_place_of_a_missing_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))
    small = MlpAlignment.model_validate(TINY | {"data": "mnist", "steps": 2})
    assert small.data_sets() == ("mnist",)
    with pytest.raises(images.DataNotFoundError, match="no data set 'mnist' on this machine"):
        small.measure(0)


def alignment(sharpness: list[float], flip: list[float]) -> xr.Dataset:
    """A run at the rate 0.5, whose edge is at 4, and a copy of it."""
    of, steps = ("rate", "seed", "step"), len(sharpness)
    curves = {"sharpness": sharpness, "flip": flip, "sharpness_alignment": sharpness, "loss": np.arange(steps, 0.0, -1)}
    return xr.Dataset(
        {name: (of, np.array([[values], [values]], float)) for name, values in curves.items()}, {"step": range(steps)}
    )


def test_only_edge_steps_count_for_the_alignment() -> None:
    reduced = MlpAlignment.model_validate({}).reduce(alignment([1.0, 5.0, 7.0, 9.0], [-1.0, 2.0, 2.0, -3.0]), None)
    assert reduced.edge_steps.item() == 3
    assert reduced.cosine.item() == 7
    assert reduced.positive.item() == pytest.approx(2 / 3)
    assert reduced.exceptions_at_edge.item() == 1
    assert reduced.positive_overall.item() == 0.5


def test_the_share_of_steps_above_the_edge_counts_from_the_first_of_them() -> None:
    for sharpness, share in (([1.0, 5.0, 7.0, 3.0], 2 / 3), ([5.0, 1.0, 1.0, 1.0], 1 / 4), ([1.0] * 4, np.nan)):
        reduced = MlpAlignment.model_validate({}).reduce(alignment(sharpness, [1.0] * 4), None)
        np.testing.assert_allclose(reduced.hovering.item(), share)


def test_both_rates_start_from_the_same_weights() -> None:
    with jax.enable_x64(True):
        small = MlpAlignment.model_validate(TINY | {"steps": 2})
        measured = small.measure(0)
    np.testing.assert_array_equal(measured.sharpness[0, :, 0], measured.sharpness[1, :, 0])
    assert measured.loss[0, 0, 1] != measured.loss[1, 0, 1]


def test_runs_separate_where_the_rate_is_lowered() -> None:
    with jax.enable_x64(True):
        small = DecaySharpens.model_validate(TINY | {"steps": 6, "drops": (2, 4)})
        kept, early, late = small.measure(0).loss.values[:, 0]
    np.testing.assert_array_equal(kept[:3], early[:3])
    np.testing.assert_array_equal(kept[:5], late[:5])
    assert kept[3] != early[3]
    assert kept[5] != late[5]
