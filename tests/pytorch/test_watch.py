"""What a watch records, what it says to bad input, and what it does when a probe fails."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
import xarray as xr
from torch.utils.data import DataLoader, TensorDataset

import dynascope as ds


def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


DATA = torch.linspace(-1, 1, 48).reshape(12, 4), torch.linspace(0, 1, 24).reshape(12, 2)


def test_the_trace_has_the_names_and_dimensions_of_every_trace():
    probes = {
        "sharpness": ds.torch.sharpness(),
        "few": ds.torch.top_eigenvalues(2, every=10),
        "more": ds.torch.top_eigenvalues(3),
        "rate": ds.torch.learning_rate(every=[5]),
    }
    model = network()
    watch = ds.torch.Watch(model, "mse", DATA, probes, optimizer=torch.optim.SGD(model.parameters(), lr=0.25))
    logged = [watch.record(step) for step in (0, 5, 10)]
    assert isinstance(watch.trace, xr.Dataset)
    assert watch.trace.sharpness.dims == ("step",)
    assert watch.trace.few.dims == ("few_step", "index")
    assert watch.trace.more.dims == ("step", "more_index")
    assert watch.trace.few_step.values.tolist() == [0, 10]
    assert watch.trace.rate.values.tolist() == [0.25]
    beside = ("residual", "error", "alignment", "angle", "missed", "products")
    scalars = {
        "sharpness",
        *(f"sharpness_{name}" for name in beside),
        "few_missed",
        "more_missed",
        "few_products",
        "more_products",
    }
    assert logged[0].keys() == scalars
    assert logged[1]["rate"] == 0.25
    assert watch.steps.tolist() == [0, 5, 10]
    assert "3 recordings up to step 10" in repr(watch)
    assert watch.plot() is not None


def test_a_notebook_shows_small_curves():
    watch = ds.torch.Watch(torch.nn.Linear(3, 2), "mse", (torch.randn(6, 3), torch.randn(6, 2)))
    assert "0 recordings" in watch._repr_html_()
    watch.record(0)
    watch.record(3)
    table = watch._repr_html_().partition("</table>")[0]
    assert "2 recordings up to step 3" in table
    assert table.count("<polyline") == 1


def test_readers_of_curves_take_the_trace():
    model = network()
    watch = ds.torch.Watch(model, "mse", DATA)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(30):
        watch.record(step)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(DATA[0]), DATA[1]).backward()
        optimizer.step()
    assert ds.curves.descents(watch.trace.loss.values) >= 1


@pytest.mark.parametrize(
    ("loss", "data"),
    [
        ("mse", DATA),
        (torch.nn.MSELoss(), DATA),
        (torch.nn.functional.mse_loss, DATA),
        (functools.partial(torch.nn.functional.mse_loss, reduction="mean"), DATA),
        (type("Criterion", (torch.nn.Module,), {"forward": lambda self, out, y: ((out - y) ** 2).mean()})(), DATA),
        (lambda model, batch: ((model(batch[0]) - batch[1]) ** 2).mean(), DATA),
        ("mse", TensorDataset(*DATA)),
        (lambda model, batch: ((model(batch["x"]) - batch["y"]) ** 2).mean(), {"x": DATA[0], "y": DATA[1].numpy()}),
    ],
)
def test_a_loss_may_be_given_in_many_ways(loss, data):
    model = network()
    watch = ds.torch.Watch(model, loss, data)
    expected = torch.nn.functional.mse_loss(model(DATA[0]), DATA[1]).item()
    assert watch.record(0)["loss"] == pytest.approx(expected, rel=1e-6)


def test_a_loader_is_not_data_but_its_batch_is():
    loader = DataLoader(TensorDataset(*DATA), batch_size=12)
    with pytest.raises(TypeError, match=r"got an object of type DataLoader; a batch of it will do, next\(iter"):
        ds.torch.Watch(network(), "mse", loader)
    assert ds.torch.Watch(network(), "mse", next(iter(loader))).record(0)["loss"] > 0


def test_a_warning_names_the_line_of_the_user():
    def fail(model):
        raise ValueError("mine")

    watch = ds.torch.Watch(network(), "mse", DATA, {"own": fail})
    with pytest.warns(RuntimeWarning, match="mine") as caught:
        watch.record(0)
    with pytest.warns(RuntimeWarning, match="mine") as replayed:
        ds.torch.replay(network(), {0: network().state_dict()}, "mse", DATA, {"own": fail})
    assert caught[0].filename == replayed[0].filename == __file__


def test_one_output_goes_with_targets_without_that_axis():
    model = torch.nn.Linear(4, 1)
    watch = ds.torch.Watch(model, "mse", (DATA[0], DATA[1][:, 0]))
    expected = torch.nn.functional.mse_loss(model(DATA[0])[:, 0], DATA[1][:, 0]).item()
    assert watch.record(0)["loss"] == pytest.approx(expected, rel=1e-6)


def test_only_some_parameters_are_measured():
    model = network()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    sizes = [
        ds.torch.Objective(model, "mse", DATA).size,
        ds.torch.Objective(model, "mse", DATA, only="*.bias").size,
        ds.torch.Objective(model, "mse", DATA, only=["2.*"]).size,
        ds.torch.Objective(model, "mse", DATA, only=lambda name, tensor: tensor.ndim == 2).size,
    ]
    assert sizes == [12, 2, 12, 10]


@pytest.mark.usefixtures("as_a_user")
class TestBadInput:
    """One sentence, before the training begins."""

    @pytest.mark.parametrize(
        ("arguments", "options", "message"),
        [
            (("net", "mse", DATA), {}, "model must be a torch.nn.Module; got 'net'"),
            ((network(), "msa", DATA), {}, "loss must be"),
            ((network(), 3, DATA), {}, "loss must be"),
            ((network(), None, DATA), {}, "loss must be given"),
            ((network(), "mse", DATA[0]), {}, "data must be"),
            ((network(), "mse", (DATA[0], DATA[1][:5])), {}, "same number of rows in every tensor.*5 and 12 rows"),
            ((network(), "mse", "data"), {}, "data must be tensors"),
            ((network(), "mse", (DATA[0][:0], DATA[1][:0])), {}, "at least 1; got 0 rows"),
            ((network(), "mse", (DATA[0], DATA[1][:, :1])), {}, "outputs and targets"),
            ((network(), lambda m, b: m(b[0]), DATA), {}, "loss must return a scalar tensor"),
            ((network(), lambda m, b: 0.5, DATA), {}, "loss must return a scalar tensor"),
            ((torch.nn.Tanh(), "mse", DATA), {}, "model must have a parameter that requires a gradient"),
            ((network(), "mse", DATA), {"only": "lora"}, r"only must match a parameter.*such as 0\.weight"),
            ((network(), "mse", DATA), {"rows": 0}, "rows must be"),
            ((network(), "mse", DATA), {"training": 1}, "training must be"),
            ((network(), "mse", DATA), {"optimizer": "adam"}, "optimizer must be"),
            ((network(), "mse", DATA, [ds.torch.loss()]), {}, "probes must be a dict"),
            ((network(), "mse", DATA, {"s": ds.torch.sharpness}), {}, "must be called"),
            ((network(), "mse", DATA, {"step": ds.torch.loss()}), {}, "'step' must have another name"),
            ((network(), "mse", DATA, {"s": ds.probes.sharpness()}), {}, "'s' is one of dynascope.probes, for JAX"),
            ((network().to("meta"), "mse", DATA), {}, "model must hold numbers; its parameters are on the device meta"),
            ((network(), "mse", (DATA[0].to("meta"), DATA[1])), {}, "data must hold numbers.* device meta"),
        ],
    )
    def test_of_a_watch(self, arguments, options, message):
        with pytest.raises((TypeError, ValueError), match=message) as caught:
            ds.torch.Watch(*arguments, **options)
        assert "\n" not in str(caught.value)

    def test_of_two_probes_with_one_variable(self):
        probes = {"s": ds.torch.sharpness(), "s_error": ds.torch.loss()}
        watch = ds.torch.Watch(network(), "mse", DATA, probes)
        with pytest.warns(
            RuntimeWarning, match="probe 's_error' records nothing .* records 's_error', too: rename one"
        ):
            watch.record(0)
        assert "s" in watch.trace

    @pytest.mark.parametrize("step", [-1, 0.5, "one", True])
    def test_of_a_step(self, step):
        with pytest.raises((TypeError, ValueError), match="step must be"):
            ds.torch.Watch(network(), "mse", DATA).record(step)

    def test_a_step_that_does_not_increase_ends_no_training(self):
        watch = ds.torch.Watch(network(), "mse", DATA)
        watch.record(4)
        with pytest.warns(RuntimeWarning, match="larger than at the last recording, 4; got 0, nothing is recorded"):
            assert watch.record(0) == {}
        assert watch.steps.tolist() == [4]

    def test_a_loss_that_is_no_mean_over_rows_is_refused_in_parts(self):
        total = torch.nn.MSELoss(reduction="sum")
        assert ds.torch.Watch(network(), total, DATA).record(0)["loss"] > 0
        with pytest.raises(ValueError, match=r"loss must be a mean over rows if rows= .* on 8 rows"):
            ds.torch.Watch(network(), total, DATA, rows=5)
        labels = torch.tensor([0, 1, -100, 1, -100, -100, 0, 1, 1, 0, 1, 0])  # a mean over those that are not ignored
        with pytest.raises(ValueError, match="loss must be a mean over rows"):
            ds.torch.Watch(network(), "cross-entropy", (DATA[0], labels), rows=4)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: ds.torch.top_eigenvalues(0),
            lambda: ds.torch.sharpness(which="smallest"),
            lambda: ds.torch.sharpness(tolerance=-1),
            lambda: ds.torch.hessian_density([0.0], 0),
            lambda: ds.torch.gradient_noise(rows=0),
            lambda: ds.torch.batch_sharpness(4, draws=1),
            lambda: ds.torch.cka("*", to="middle"),
            lambda: ds.torch.kernel_norm(convention="mean"),
            lambda: ds.torch.agop_alignment("last"),
            lambda: ds.torch.agop_alignment(np.ones((2, 3))),
            lambda: ds.torch.singular_values(0),
            lambda: ds.torch.weight_ranks(change="yes"),
        ],
    )
    def test_of_a_probe(self, make):
        with pytest.raises((TypeError, ValueError)):
            make()


@pytest.mark.usefixtures("as_a_user")
class TestAProbeThatFails:
    """The training goes on, with one warning for each recording that lacks a value."""

    @pytest.mark.parametrize(
        ("probe", "message"),
        [
            (ds.torch.cka("nothing"), "modules must match a module, such as 0, 1, 2; got 'nothing'"),
            (ds.torch.cka("*", to="last"), 'to="last" needs the trained model'),
            (ds.torch.sharpness(preconditioned=True), "needs the optimizer"),
            (ds.torch.learning_rate(), "needs the optimizer"),
            (ds.torch.top_eigenvalues(50), "k must be an integer, at most 37; got 50"),
            (ds.torch.batch_sharpness(20), "batch must be an integer, at most 12; got 20"),
            (ds.torch.gradient_noise(rows=7), "data must have at least 2 groups of 7 rows; got 12 rows"),
            (ds.torch.attention_entropy(), "attention_entropy needs a model of transformers"),
            (lambda model: model.nothing, "nothing"),
            (lambda model: "text", "must return numbers"),
        ],
    )
    def test_is_named_in_one_sentence(self, probe, message):
        watch = ds.torch.Watch(network(), "mse", DATA, {"bad": probe, "loss": ds.torch.loss()})
        with pytest.warns(RuntimeWarning, match=message) as caught:
            watch.record(0)
        assert len(caught) == 1
        assert "probe 'bad' records nothing at step 0" in str(caught[0].message)
        assert "\n" not in str(caught[0].message)
        assert watch.trace.attrs["failed"] == ["bad"]
        assert np.isfinite(watch.trace.loss).all()

    def test_is_said_of_a_loss_without_a_gradient(self):
        def loss(model, batch):
            return ((model(batch[0]).detach() - batch[1]) ** 2).mean()

        watch = ds.torch.Watch(network(), loss, DATA, {"sharpness": ds.torch.sharpness()})
        with pytest.warns(RuntimeWarning, match="loss must have a gradient in the parameters that are measured"):
            watch.record(0)

    def test_has_nan_at_its_step(self):
        calls = []

        def sometimes(model):
            calls.append(1)
            if len(calls) == 2:
                raise RuntimeError("out of memory")
            return {"value": torch.ones(2), "other": len(calls)}

        watch = ds.torch.Watch(network(), "mse", DATA, {"p": sometimes})
        watch.record(0)
        with pytest.warns(RuntimeWarning, match="out of memory"):
            watch.record(1)
        watch.record(2)
        np.testing.assert_array_equal(watch.trace.p, [[1, 1], [np.nan, np.nan], [1, 1]])
        np.testing.assert_array_equal(watch.trace.p_other, [1, np.nan, 3])
