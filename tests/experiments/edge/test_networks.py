"""edge.mlp-alignment and edge.decay-sharpens: their data, their statistics and their learning rates."""

from pathlib import Path

import jax
import numpy as np
import pytest

from dynascope.experiments.edge.decay_sharpens import DecaySharpens
from dynascope.experiments.edge.digit_experiment import gaussian_clusters, sample
from dynascope.experiments.edge.mlp_alignment import MlpAlignment, median_where, share_where
from dynascope.tasks.data import images

TINY = {"data": "gaussians", "samples": 20, "seeds": 1, "width": 3}


def test_gaussian_clusters_are_balanced_and_the_same_each_time() -> None:
    x, y = gaussian_clusters(100)
    assert x.shape == (100, 79)
    assert y.sum(axis=0).tolist() == [50, 50]
    np.testing.assert_array_equal(x, gaussian_clusters(100)[0])


def test_nothing_takes_the_place_of_a_missing_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))
    with pytest.raises(images.DataNotFoundError, match="no data set 'mnist' on this machine"):
        sample("mnist", 20)
    assert "0 and 1 of MNIST" in sample("digits", 20).name
    assert "not MNIST" in sample("gaussians", 20).name


def test_shares_and_medians_are_over_the_marked_entries() -> None:
    marked = np.array([[True, True, False], [False, False, False]])
    np.testing.assert_array_equal(median_where(np.array([[1.0, 3.0, 9.0], [1.0, 1.0, 1.0]]), marked), [2, np.nan])
    np.testing.assert_array_equal(share_where(np.array([[True, False, True], [True] * 3]), marked), [0.5, np.nan])


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
