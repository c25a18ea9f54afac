"""What the rank experiments on transformers count, and what they say to wrong fields."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.gradual_rank import rank_claims
from dynascope.experiments.gradual_rank.initialization_scale import InitializationScale, spearman
from dynascope.experiments.gradual_rank.language import Language
from dynascope.experiments.gradual_rank.spectra_of_heads import looks, ranks, rises
from dynascope.experiments.gradual_rank.vision import Vision
from dynascope.experiments.gradual_rank.vision_data import vision_data
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import build


def trace_of(growth, perturbation="trained"):
    """A made-up trace: spectra with 1 direction at epoch 1 and `growth` equal ones at the end; 8 at the start."""
    steps, dims = np.arange(0, 101, 10), ("seed", "step", "product", "layer", "head", "singular")
    values = np.zeros((2, 11, 2, 3, 2, 16))
    for look, directions in enumerate(np.linspace(1, growth, 11)):
        whole = int(directions)
        values[:, look, ..., :whole] = 1
        values[:, look, ..., whole : whole + 1] = np.sqrt(directions - whole)
    values[:, 0] = np.nan
    coords = {
        "step": steps,
        "epoch": ("step", steps / 10),
        "product": ["key-query", "value-output"],
        "layer": [1, 2, 3],
    }
    return xr.Dataset(
        {
            "spectrum": (dims, values),
            "initial": ((*dims[:1], *dims[2:5], "initial_singular"), np.ones((2, 2, 3, 2, 8))),
            "null": ((*dims[:1], *dims[2:]), np.ones((2, 2, 3, 2, 16))),
        },
        coords,
        {"data": "made up", "perturbation": perturbation},
    )


def test_stable_ranks_are_means_over_heads_and_rise_as_made():
    found = ranks(trace_of(3.0))
    np.testing.assert_allclose(found.gained.isel(step=-1), 3)
    np.testing.assert_allclose(found.initial, 8)
    np.testing.assert_allclose(found.null, 16)
    np.testing.assert_allclose(rises(found.gained), 1)


def test_claims_hold_of_low_and_growing_rank_and_fail_otherwise():
    grown, noise = trace_of(3.0), trace_of(16.0, "random")
    assert rank_claims.low_rank(grown, "", "key-query", 0.5).verdict == "holds"
    assert rank_claims.low_rank(grown, "", "key-query", 0.3).verdict == "fails"
    failed = rank_claims.low_rank(noise, "", "key-query", 0.5)
    assert failed.verdict == "fails"
    assert failed.diagnosis
    assert [claim.verdict for claim in rank_claims.grows(grown, "", 2.4)] == ["holds"] * 4
    verdicts = {claim.id: claim.verdict for claim in rank_claims.grows(grown, "", 3.0)}
    assert verdicts["grows-key-query"] == "fails"
    assert rank_claims.unlike_noise(grown, "").verdict == "holds"
    assert rank_claims.unlike_noise(noise, "").verdict == "fails"
    assert [claim.verdict for claim in rank_claims.directions(grown, "")] == ["holds"] * 2
    assert rank_claims.net_growth(grown, "", "value-output", 2).verdict == "holds"
    assert rank_claims.net_growth(trace_of(1.0), "", "value-output", 2).verdict == "fails"


def test_looks_begin_at_0_are_dense_in_the_first_epoch_and_end_with_the_run():
    at = looks(1000, 50, 60)
    assert at[0] == 0
    assert at[-1] == 1000
    assert 1 in at
    assert 50 in at
    assert (np.diff(at) > 0).all()
    assert len(at) <= 61


def test_nothing_to_order_is_no_order():
    assert spearman((1.0, 1.0), xr.DataArray([1.0, 2.0])) == 0
    assert spearman((1.0, 0.5), xr.DataArray([2.0, 1.0])) == pytest.approx(1)


def test_wrong_fields_get_one_clear_line(tmp_path):
    with pytest.raises(UsageError, match="scales must be positive"):
        build(InitializationScale, {"scales": [1.0, 0.0]})
    with pytest.raises(ValueError, match="is not a folder"):
        vision_data("folder", None, str(tmp_path / "nowhere"))
    text = tmp_path / "latin.txt"
    text.write_bytes(b"\xff\xfe" * 500)
    with pytest.raises(ValueError, match="is not UTF-8"):
        build(Language, {"text": str(text)}, preset="quick").measure(0)
    with pytest.raises(ValueError, match="batch must be at most the number of training images, 2000; got 5000"):
        build(Vision, {"batch": 5000}, preset="quick").measure(0)


def test_heads_of_a_language_model_divide_its_dimension():
    with pytest.raises(UsageError, match="dim must be a multiple of heads; got dim=64, heads=3"):
        build(Language, {"heads": 3}, "quick")
