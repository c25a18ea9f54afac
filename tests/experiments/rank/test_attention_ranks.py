"""What the rank experiments on transformers count, and what they say to wrong fields."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr
from PIL import Image

from dynascope.experiments.rank.attention_ranks import (
    directions,
    gradual,
    grows,
    low_rank,
    read_ranks,
    record_steps,
    rises,
    unlike_noise,
)
from dynascope.experiments.rank.initialization_scale import InitializationScale, spearman
from dynascope.experiments.rank.language import Language
from dynascope.experiments.rank.vision import Vision
from dynascope.experiments.rank.vision_experiment import clipped, image_set
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import build


def trace_of(growth, perturbation="trained"):
    """A made-up trace: spectra with 1 direction at epoch 1 and `growth` equal ones at the end; 8 at the start."""
    steps, dims = np.arange(0, 101, 10), ("seed", "step", "product", "layer", "head", "singular")
    values = np.zeros((2, 11, 2, 3, 2, 16))
    for record, rank in enumerate(np.linspace(1, growth, 11)):
        whole = int(rank)
        values[:, record, ..., :whole] = 1
        values[:, record, ..., whole : whole + 1] = np.sqrt(rank - whole)
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
    found = read_ranks(trace_of(3.0))
    np.testing.assert_allclose(found.late, 3)
    np.testing.assert_allclose(found.early, 1.2)
    np.testing.assert_allclose(found.initial, 8)
    np.testing.assert_allclose(found.null, 16)
    np.testing.assert_allclose(found.count_late, 3)
    np.testing.assert_allclose(found.rise, 1)
    np.testing.assert_allclose(rises(found.gained), 1)


def test_claims_hold_of_low_and_growing_rank_and_fail_otherwise():
    grown, noise, still = (read_ranks(trace_of(rank)) for rank in (3.0, 16.0, 1.0))
    assert low_rank(grown, "key-query", 0.5).verdict == "holds"
    assert low_rank(grown, "key-query", 0.3).verdict == "fails"
    assert low_rank(noise, "key-query", 0.5).verdict == "fails"
    assert [grows(grown, "key-query", factor).verdict for factor in (2.4, 3.0)] == ["holds", "fails"]
    assert gradual(grown, "value-output").verdict == "holds"
    assert [unlike_noise(one).verdict for one in (grown, noise)] == ["holds", "fails"]
    assert [claim.verdict for claim in directions(grown, "key-query")] == ["holds"] * 2
    assert [claim.verdict for claim in directions(noise, "key-query")] == ["holds", "fails"]
    assert [grows(one, "value-output", from_layer=2).verdict for one in (grown, still)] == ["holds", "fails"]


def test_recorded_steps_begin_at_0_are_dense_in_the_first_epoch_and_end_with_the_run():
    at = record_steps(1000, 50, 60)
    assert at[0] == 0
    assert at[-1] == 1000
    assert 1 in at
    assert 50 in at
    assert (np.diff(at) > 0).all()
    assert len(at) <= 61


def test_nothing_to_order_is_no_order():
    assert spearman((1.0, 1.0), np.array([1.0, 2.0])) == 0
    assert spearman((1.0, 0.5), np.array([2.0, 1.0])) == pytest.approx(1)


@pytest.mark.parametrize(("small", "verdict"), [((10, 60), "holds"), ((10, 20), "fails"), ((10, 200), "fails")])
def test_components_that_rise_later_at_a_small_scale_are_further_apart(small, verdict):
    steps = np.arange(0, 101, 10)
    rises = {1.0: (10, 20, 40), 0.5: small}
    dims = ("scale", "seed", "step", "product", "layer", "head", "singular")
    values = np.full((2, 1, 11, 2, 1, 1, 3), 1e-9)
    for place, times in enumerate(rises.values()):
        for component, time in enumerate(times):
            values[place, ..., component] += (steps >= time)[:, None, None, None]
    trace = xr.Dataset(
        {
            "spectrum": (dims, values),
            "initial": ((*dims[:2], *dims[3:6], "initial_singular"), np.ones((2, 1, 2, 1, 1, 3))),
            "null": ((*dims[:2], *dims[3:]), np.ones((2, 1, 2, 1, 1, 3))),
            "accuracy": (("scale", "seed", "accuracy_step"), np.ones((2, 1, 1))),
        },
        {"step": steps, "epoch": ("step", steps / 10), "product": ["key-query", "value-output"]},
        {"data": "made up"},
    )
    experiment = InitializationScale(scales=(1.0, 0.5), depth=1, epochs=10, warmup_epochs=1)
    found = {claim.id: claim.verdict for claim in experiment.judge(experiment.reduce(trace, None))}
    assert found["fewer-components-value-output"] == "holds"
    assert found["further-apart"] == verdict


def test_wrong_fields_get_one_clear_line(tmp_path):
    with pytest.raises(UsageError, match="scales must be positive"):
        build(InitializationScale, {"scales": [1.0, 0.0]})
    with pytest.raises(UsageError, match="pixels is for data=folder only; got data=digit-pairs"):
        build(Vision, {"pixels": 8}, preset="quick")
    with pytest.raises(UsageError, match="since must be less than steps; got since=30, steps=20"):
        build(Language, {"steps": 20}, preset="quick")
    with pytest.raises(ValueError, match="data=folder needs folder="):
        image_set("folder", None)
    with pytest.raises(ValueError, match="is not a folder"):
        image_set("folder", None, str(tmp_path / "nowhere"))
    text = tmp_path / "latin.txt"
    text.write_bytes(b"\xff\xfe" * 500)
    with pytest.raises(ValueError, match="is not UTF-8"):
        build(Language, {"text": str(text)}, preset="quick").measure(0)
    with pytest.raises(ValueError, match="batch must be at most the number of training images, 2000; got 5000"):
        build(Vision, {"batch": 5000}, preset="quick").measure(0)


def pictures(folder, sides=(4, 4, 4)):
    """Three classes of 20 pictures, of gray 0 to 19, 80 to 99, 160 to 179."""
    for value, side in enumerate(sides):
        (folder / "abc"[value]).mkdir()
        for number in range(20):
            gray = np.full((side, side, 3), 80 * value + number, np.uint8)
            Image.fromarray(gray).save(folder / "abc"[value] / f"{number:02}.png")
    return str(folder)


def test_some_images_of_a_folder_are_of_all_classes_and_always_the_same(tmp_path):
    folder = pictures(tmp_path)
    found, again = (image_set("folder", 16, folder) for _ in range(2))
    assert set(found.y.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(found.x[:, 0, 0, 0] // 80, found.y)
    np.testing.assert_array_equal(found.x, again.x)


TINY = {"dim": 8, "depth": 1, "heads": 2, "hidden": 8, "recorded": 10}


def test_the_preset_for_imagenet_is_vit_b_16_and_runs_in_small(tmp_path):
    full = build(Vision, {}, "imagenet")
    assert (full.dim, full.head_dim, full.heads, full.patch, full.pixels, full.batch) == (768, 64, 12, 16, 224, 4096)
    changes = {
        "folder": pictures(tmp_path, (4, 6, 9)),
        "pixels": 4,
        "patch": 2,
        "head_dim": 4,
        "batch": 16,
        "epochs": 2,
    }
    trace = build(Vision, TINY | changes | {"warmup_epochs": 1}, "imagenet").measure(0)
    assert trace.attrs["data"].startswith("48 images")
    assert np.isfinite(trace.spectrum.isel(step=-1)).all()


@pytest.mark.parametrize(("clip", "step"), [(None, [-3.0, -4.0]), (0.5, [-0.3, -0.4]), (6.0, [-3.0, -4.0])])
def test_gradients_are_clipped_to_the_norm_given(clip, step):
    rule, gradient = clipped(optax.sgd(1.0), clip), jnp.array([3.0, 4.0])
    updates, _ = rule.update(gradient, rule.init(gradient))
    np.testing.assert_allclose(updates, step, rtol=1e-6)


def test_the_presets_for_wikitext_are_gpt_2_and_half_of_it_and_run_in_small(tmp_path):
    full, mid = (build(Language, {}, preset) for preset in ("gpu", "mid"))
    assert (full.dim, full.depth, full.steps, full.context, full.batch) == (768, 12, 86_000, 256, 16)
    assert (mid.dim, mid.depth, mid.steps * mid.context * mid.batch // 10**6) == (384, 6, 9)
    text = tmp_path / "text.txt"
    text.write_text("the moon follows the river; " * 20)
    changes = {"text": str(text), "vocabulary": 20, "context": 8, "batch": 2, "steps": 4, "since": 2}
    trace = build(Language, TINY | changes, "mid").measure(0)
    assert "byte-pair tokens" in trace.attrs["data"]
    assert np.isfinite(trace.spectrum.isel(step=-1)).all()


def test_heads_of_a_language_model_divide_its_dimension():
    with pytest.raises(UsageError, match="dim must be a multiple of heads; got dim=64, heads=3"):
        build(Language, {"heads": 3}, "quick")
