"""What the experiments on catapults of deep networks count, on curves made by hand; and that their settings run."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.catapult.batches import Batches, rises_of
from dynascope.experiments.catapult.classification_data import sample
from dynascope.experiments.catapult.cyclic import cycles_of
from dynascope.experiments.catapult.deep_experiment import DIVERGED, Network
from dynascope.experiments.catapult.gradient_descent import GradientDescent
from dynascope.experiments.catapult.multiple import Multiple, catapults_of
from dynascope.experiments.catapult.sgd_experiment import between_spikes, spikes_of
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import build
from dynascope.tasks.data.files import DataNotFoundError


def run(loss, top, norm=None, **others):
    """A trace of one seed with one split."""
    loss, top = np.asarray(loss, float)[None], np.asarray(top, float)[None]
    found = {
        "loss": (("seed", "step"), loss),
        "kernel": (("seed", "step"), np.ones_like(loss) if norm is None else np.asarray(norm, float)[None]),
        "kernel_top": (("seed", "step", "split"), top[..., None]),
        "kernel_rest": (("seed", "step", "split"), (loss - top)[..., None]),
    }
    found |= {name: (("seed", "step"), np.asarray(values)[None]) for name, values in others.items()}
    return xr.Dataset(found, {"split": [1]})


def descents(loss, top):
    """A trace of gradient descent at two rates, one seed each, with a critical rate of twice the rate in use."""
    found = run(loss, top, rate=np.ones(len(top)), kernel_critical_rate=np.full(len(top), 2.0))
    return xr.concat([found, found], "ratio").assign_coords(step=np.arange(len(top)))


def test_the_first_spike_is_measured_from_the_lowest_loss_before_it():
    trace = descents([1.0, 0.5, 1.0, 4.0, 0.4, 0.3, 0.3, 0.2], [0.4, 0.1, 0.4, 3.25, 0.1, 0.1, 0.1, 0.1])
    found = GradientDescent(top=1, seeds=1).reduce(trace, None)
    np.testing.assert_allclose([found.height, found.part, found.end], [[8], [0.9], [0.2]])
    assert found.rest_rise.values == pytest.approx([0.2 / 0.6], rel=1e-5)
    assert found.critical_then.values == [2]
    assert found.critical_at_turn.values == [2]
    assert (found.notable.values.tolist(), found.notable_above.values.tolist()) == ([[2], [2]], [[0], [0]])
    assert found.largest_rise.values[0] == pytest.approx([3])


def test_convolutions_run_one_network_at_a_time_and_as_the_device_does_them():
    networks = [GradientDescent(architecture=kind) for kind in ("cnn", "residual", "fcn", "vit")]
    assert [one.side_by_side for one in networks] == [1, 1, None, None]
    assert [one.matmul_precision for one in networks] == ["default", "default", "highest", "highest"]


def test_a_rate_diverges_where_the_loss_is_huge_or_no_number():
    trace = run([1.0, 0.5], [0.1, 0.1], rate_phase=[0, 0], rate_catapults=[0, 0]).isel(seed=[0, 0, 0])
    losses = [[1.0, 3.0, 0.5], [1.0, 2e6, 0.1], [1.0, np.inf, np.nan]]
    trace["early_loss"] = ("figure", "seed", "early"), np.array([losses, losses])
    found = Multiple(top=1, seeds=3).reduce(trace, None).early_peak
    assert (~(found < DIVERGED)).values.tolist() == [[False, True, True]] * 2


@pytest.mark.parametrize("loss", [[1.0, 0.5, 0.6], [1.0, 9.0, np.nan]])
def test_a_run_that_falls_has_no_spike_and_one_that_diverges_does_not_end(loss):
    experiment = GradientDescent(top=1, seeds=1)
    main, *_ = experiment.judge(experiment.reduce(descents(loss, [0.5, 0.2, 0.1]), None))
    assert main.verdict == "fails"


def test_completed_catapults_are_those_whose_raise_came_to_an_end():
    top, phase = [0.1, 0.1, 1.6, 0.1, 0.1, 2.0, 2.0], [0, 0, 1, 1, 0, 1, 1]
    trace = run([1.0, 0.5, 2.0, 0.4, 0.3, 3.0, 2.5], top, norm=[5, 6, 9, 3, 3, 4, 4], rate_phase=phase)
    found = {name: values.values.tolist() for name, values in catapults_of(trace, 1).items()}
    assert found == {"rise": [[4.0]], "share": [[1.0]], "norm_before": [[6.0]], "norm_after": [[3.0]]}


def test_spikes_of_sgd_are_counted_until_the_run_is_trained():
    loss = np.concatenate([[1.0, 0.9, 0.8, 2.4, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], [1e-4, 1.0, 1e-4]])
    top = np.where(loss == 2.4, 2.0, 0.1)
    found = spikes_of(run(loss, top, norm=np.linspace(5, 1, loss.size)))
    np.testing.assert_allclose([found.height, found.share.sel(split=1)], [[3], [1.9 / 1.6]])
    assert found.norm_ratio.values[0] == pytest.approx((5 - 8 * 4 / 13) / (5 - 2 * 4 / 13))
    assert not spikes_of(run(loss, top), factor=3.1).height.size


def test_steps_beside_the_spikes_are_counted_until_the_run_is_trained():
    loss = [1.0, 0.9, 3.0, *[0.5] * 6, 0.4, 0.3, 1e-4, 9.0]
    top = [0.5, 0.5, 2.5, 0.1, 0.2, *[0.1] * 7, 0.0]
    norm = [9, 9, 9, 1, 1, 1, 1, 1, 1, 1, 2, 2, 9]
    found = between_spikes(run(loss, top, norm=norm)).isel(seed=0)
    assert found.rest_rise == pytest.approx(0.2), "from 0.4 to 0.5 beside the spike, of 0.5 at the start; not the last"
    assert found.norm_kept == 1, "the drop is within five steps of the spike"
    assert between_spikes(run(loss, top, norm=norm), factor=4).norm_kept.item() == pytest.approx(10 / 11)


def test_a_cycle_is_judged_by_its_own_trough():
    loss = [1.0, 0.5, 0.9, 0.4, 0.4, 0.3, 0.35, 0.2, 0.1]
    found = cycles_of(run(loss, [0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], norm=range(9)), 4, 1).isel(seed=0)
    np.testing.assert_allclose(found.rise, [1.8, 0.35 / 0.3])
    np.testing.assert_allclose(found.share[0], 0.3 / 0.4)
    np.testing.assert_allclose(found.norm, [0, 4, 8])


def test_a_batch_is_compared_before_and_after_its_own_step():
    losses = {"batch_loss": [1.0, 0.6, 0.9, 0.5, 0.5], "batch_loss_after": [9.0, 1.1, 0.5, 0.8, 0.9]}
    trace = run([1.0, 1.2, 0.9, 1e-4, 2.0], np.zeros(5), batch_rate=[0.5, 2.0, 0.5, 0.5, 0.5], **losses)
    trace["rate"] = ("seed", "rate_step"), np.ones((1, 1))
    own, total, above, counted = rises_of(trace)
    assert counted[0].tolist() == [True, True, True, False]
    assert own[0].tolist() == [True, False, False, False]
    assert total[0].tolist() == [True, False, False, False]
    assert above[0].tolist() == [True, False, True, False]


def sgd_trace():
    """Twelve steps at two rates, with a spike of which 80 % lie along the top eigenvector and 100 % in the top 5."""
    loss = np.array([1.0, 0.9, 0.8, 2.8, 0.7, 0.6, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4])
    steps = dict.fromkeys(("loss", "kernel", "batch_loss", "batch_loss_after", "batch_rate"), loss)
    tops = np.stack([np.where(loss == 2.8, part, 0.1) for part in (1.7, 2.1)], axis=-1)
    found = {name: (("ratio", "seed", "step"), np.tile(values, (2, 1, 1))) for name, values in steps.items()}
    found["kernel_top"] = ("ratio", "seed", "step", "split"), np.tile(tops, (2, 1, 1, 1))
    found["kernel_rest"] = ("ratio", "seed", "step", "split"), np.tile(loss[:, None] - tops, (2, 1, 1, 1))
    found["rate"] = ("ratio", "seed", "rate_step"), np.ones((2, 1, 1))
    found["hessian_rate"] = ("ratio", "seed", "hessian_rate_step"), np.ones((2, 1, 1))
    return xr.Dataset(found, {"split": [1, 5], "hessian_rate_step": [0]}, {"data": "made by hand"})


def test_spikes_are_judged_by_one_eigenvector_and_by_five():
    experiment = Batches(seeds=1)
    found = {claim.id: claim for claim in experiment.judge(experiment.reduce(sgd_trace(), None))}
    assert found["spikes-in-the-top-5"].verdict == "holds"
    assert found["spikes-in-the-top-1"].verdict == "fails"
    assert found["spikes-in-the-top-1"].measured == {"measured": pytest.approx(0.8), "spikes": 1}


@pytest.mark.parametrize(
    ("preset", "changes", "printed"),
    [("quick", {}, 0.9732), ("fcn5", {}, 0.9617), ("cnn5", {}, 0.9467), ("quick", {"depth": 3}, None)],
)
def test_the_printed_match_rate_is_that_of_the_network_at_hand(preset, changes, printed):
    batches = build(Batches, changes | {"seeds": 1}, preset=preset)
    match, total = list(batches.judge(batches.reduce(sgd_trace(), None)))[:2]
    assert match.measured.get("printed") == total.measured.get("printed") == printed


def test_ten_classes_run_with_convolutions():
    tiny = {"data": "gaussians", "samples": 6, "depth": 2, "width": 2, "steps": 2, "seeds": 1}
    measured = build(GradientDescent, tiny, preset="ten-classes-cnn").measure(0)
    assert measured.kernel_top.split.values.tolist() == [10, 30, 50]
    np.testing.assert_allclose(
        measured.kernel_top + measured.kernel_rest, measured.loss.broadcast_like(measured.kernel_top), rtol=1e-4
    )
    assert measured.attrs["data"] == "10 Gaussians"


@pytest.mark.parametrize(
    ("architecture", "depth", "width"),
    [("fcn", 5, 6), ("cnn", 5, 4), ("myrtle", 5, 4), ("residual", 10, 1), ("vit", 4, 8)],
)
@pytest.mark.parametrize("parameterization", ["ntk", "standard"])
def test_every_architecture_takes_images_and_gives_its_outputs(architecture, depth, width, parameterization):
    x = np.zeros((2, 192) if architecture == "fcn" else (2, 8, 8, 3), np.float32)
    net = Network(architecture, depth, width, parameterization, parameterization == "standard")

    outputs = jax.eval_shape(lambda x: jax.vmap(net(jax.random.key(0), x.shape[1:], 3))(x), x)
    assert outputs.shape == (2, 3)


def test_regression_targets_need_a_fully_connected_network():
    assert GradientDescent(data="rank-2").examples(0).x.shape == (128, 100)
    with pytest.raises(UsageError, match="data=rank-2 has no images: only architecture=fcn"):
        build(GradientDescent, {"data": "rank-2", "architecture": "cnn"})


IDLE = {
    "depth has no effect with architecture=myrtle: leave it at 5; got 3": {"architecture": "myrtle", "depth": 3},
    "pool has no effect with data=rank-2: leave it at 1; got 2": {"data": "rank-2", "pool": 2},
    r"classes has no effect with data=rank-3: leave it at \(7, 9\); got \(0, 1\)": {
        "data": "rank-3",
        "classes": (0, 1),
    },
}


@pytest.mark.parametrize("idle", IDLE)
def test_a_field_that_would_do_nothing_is_refused(idle):
    with pytest.raises(UsageError, match=idle) as error:
        build(GradientDescent, IDLE[idle])
    assert "\n" not in str(error.value)


def test_gaussians_are_data_of_their_own():
    found = GradientDescent(data="gaussians", samples=10).examples(0)
    assert found.x.shape == (10, 49)
    assert found.name == "two Gaussians"


def test_three_gaussians_have_a_column_of_targets_each():
    drawn = GradientDescent(data="gaussians", classes=(0, 1, 2), samples=30, architecture="cnn").examples(0)
    assert (drawn.x.shape, drawn.y.shape) == ((30, 7, 7, 1), (30, 3))
    assert drawn.name == "3 Gaussians"
    assert set(map(tuple, drawn.y)) == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}


def test_nothing_takes_the_place_of_missing_images(monkeypatch, tmp_path):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))
    with pytest.raises(DataNotFoundError, match="no data set 'svhn' on this machine"):
        sample("svhn", (0, 1, 2), 30, 1, 0)


@pytest.mark.parametrize(
    ("classes", "samples", "why"), [((0, 1, 99), 4, "got 0, 1 and 99"), ((0, 1, 2), 13, "has 12 training examples")]
)
def test_more_than_two_classes_are_those_that_are_there(classes, samples, why, monkeypatch, tmp_path):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    x, y = np.zeros((12, 4, 4), np.uint8), np.arange(12) % 3
    np.savez(tmp_path / "usps.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(ValueError, match=why):
        GradientDescent(data="usps", classes=classes, samples=samples).examples(0)


def test_what_is_read_from_files_is_named():
    assert GradientDescent().data_sets() == ("cifar10",)
    assert GradientDescent(data="rank-2").data_sets() == GradientDescent(data="gaussians").data_sets() == ()
