"""Every probe against its twin in JAX on the same weights and data, and against direct formulas."""

from __future__ import annotations

import copy

import jax
import numpy as np
import pytest
import torch

import dynascope as ds

pytest.importorskip("torch2jax", reason="the optional extra `torch` is not installed")


def steps_of(module, data, count=2):
    """The weights at a few times of a training."""
    module = copy.deepcopy(module).eval()
    optimizer = torch.optim.SGD(module.parameters(), 0.05)
    states = [copy.deepcopy(module.state_dict())]
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(data[0]), data[1]).backward()
        optimizer.step()
        states.append(copy.deepcopy(module.state_dict()))
    return states


def both(module, data, ours, theirs):
    """The traces of a training by the probes of `ds.torch` and by those of JAX, both in double precision."""
    states = steps_of(module, data)
    trace = ds.torch.replay(module, dict(enumerate(states)), "mse", data, ours)
    model = ds.models.from_torch(copy.deepcopy(module).eval())
    models = [model.with_state_dict(state) for state in states]
    arrays = tuple(part.numpy() for part in data)
    return trace, ds.observe(models, ds.tasks.Supervised("mse"), data=arrays, probes=theirs)


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def doubled(network):
    """The network and its data in double precision."""
    module, data = network
    return module.double(), tuple(part.double() for part in data)


def agree(trace, expected, names, rtol=1e-8, atol=1e-10):
    for name in names:
        assert trace[name].dims == expected[name].dims, name
        np.testing.assert_allclose(trace[name], expected[name], rtol=rtol, atol=atol, err_msg=name)


def test_curvature(doubled):
    module, data = doubled
    options = {"tolerance": 1e-8, "max_products": 2000}
    at = np.linspace(-1, 2, 7)
    trace, expected = both(
        module,
        data,
        {
            "loss": ds.torch.loss(),
            "sharpness": ds.torch.sharpness(**options),
            "top": ds.torch.top_eigenvalues(4, **options),
            "extreme": ds.torch.sharpness(which="magnitude", **options),
            "density": ds.torch.hessian_density(at, 0.3, draws=4),
        },
        {
            "loss": ds.probes.loss(),
            "sharpness": ds.probes.sharpness(**options),
            "top": ds.probes.top_eigenvalues(4, **options),
            "extreme": ds.probes.sharpness(which="magnitude", **options),
            "density": ds.probes.hessian_density(jax.numpy.asarray(at), 0.3, draws=4),
        },
    )
    assert set(trace.data_vars) == set(expected.data_vars)
    agree(trace, expected, ["loss"])
    agree(trace, expected, ["sharpness", "top", "extreme"], rtol=1e-7)
    assert np.all(np.abs(trace.top_alignment - expected.top_alignment) <= trace.top_angle + expected.top_angle)
    apart = np.abs(trace.density - expected.density)
    assert np.all(apart <= 4 * np.hypot(trace.density_standard_error, expected.density_standard_error) + 1e-6)


def test_noise(doubled):
    module, data = doubled
    trace, expected = both(
        module,
        data,
        {"noise": ds.torch.gradient_noise(), "groups": ds.torch.gradient_noise(rows=3)},
        {"noise": ds.probes.gradient_noise(), "groups": ds.probes.gradient_noise(rows=3)},
    )
    agree(trace, expected, list(expected.data_vars))


def test_batch_sharpness_over_all_data_is_the_curvature_along_the_gradient(doubled):
    module, data = doubled
    whole = {"batch": 24, "draws": 2}
    trace, expected = both(
        module, data, {"batch": ds.torch.batch_sharpness(**whole)}, {"batch": ds.probes.batch_sharpness(**whole)}
    )
    agree(trace, expected, ["batch"])
    trace, expected = both(
        module,
        data,
        {"batch": ds.torch.batch_sharpness(6, draws=200)},
        {"batch": ds.probes.batch_sharpness(6, draws=200)},
    )
    assert np.all(np.abs(trace.batch - expected.batch) <= 4 * np.hypot(trace.batch_error, expected.batch_error))


def test_weights(doubled):
    module, data = doubled
    trace, expected = both(
        module,
        data,
        {
            "ranks": ds.torch.weight_ranks(),
            "change": ds.torch.weight_ranks(change=True),
            "moved": ds.torch.displacement(),
        },
        {
            "ranks": ds.probes.weight_ranks(),
            "change": ds.probes.weight_ranks(change=True),
            "moved": ds.probes.displacement(),
        },
    )
    names = [name.removeprefix("parameters.") for name in expected["weight"].values.tolist()]
    order = [names.index(name) for name in trace["weight"].values.tolist()]
    for name in ("ranks", "ranks_effective", "ranks_norm", "change", "change_effective", "change_norm"):
        np.testing.assert_allclose(trace[name], expected[name][:, order], rtol=1e-8, err_msg=name)
    agree(trace, expected, ["moved"])


def test_kernel_and_outer_products(doubled):
    module, data = doubled
    x, d = data[0][:10], data[0][0].numel()
    draw = np.random.default_rng(0).standard_normal((d, d))
    target = draw @ draw.T
    trace, expected = both(
        module,
        data,
        {
            "kernel": ds.torch.kernel_norm(x),
            "distance": ds.torch.kernel_distance(x),
            "agop": ds.torch.agop_alignment(target, x),
        },
        {
            "kernel": ds.probes.kernel_norm(x.numpy()),
            "distance": ds.probes.kernel_distance(x.numpy()),
            "agop": ds.probes.agop_alignment(jax.numpy.asarray(target), jax.numpy.asarray(x.numpy())),
        },
    )
    agree(trace, expected, ["kernel", "kernel_critical_rate", "agop", "distance"])


def test_cka(doubled):
    module, data = doubled
    x = data[0].numpy()

    def outputs(model):
        return jax.vmap(model)(x)

    trace, expected = both(
        module,
        data,
        {"first": ds.torch.cka(lambda m: m(data[0])), "previous": ds.torch.cka(lambda m: m(data[0]), to="previous")},
        {"first": ds.probes.cka(outputs), "previous": ds.probes.cka(outputs, to="previous")},
    )
    agree(trace, expected, ["first", "previous"])


def test_cka_of_a_module_is_the_direct_formula():
    module, x = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2)), torch.randn(20, 5)
    data = (x, torch.randn(20, 2))
    states = steps_of(module, data, 3)
    probes = {to: ds.torch.cka(["0", "1"], to=to) for to in ("first", "previous", "last")}
    trace = ds.torch.replay(module, dict(enumerate(states)), "mse", data, probes)

    def hidden(state):
        return np.tanh((x @ state["0.weight"].T + state["0.bias"]).double().numpy())

    def alike(a, b):
        a, b = a - a.mean(axis=0), b - b.mean(axis=0)
        return np.linalg.norm(a.T @ b) ** 2 / np.linalg.norm(a.T @ a) / np.linalg.norm(b.T @ b)

    features = [hidden(state) for state in states]
    for to, other in {"first": [0, 0, 0, 0], "previous": [0, 0, 1, 2], "last": [3, 3, 3, 3]}.items():
        expected = [alike(features[i], features[j]) for i, j in enumerate(other)]
        np.testing.assert_allclose(trace[to].sel({trace[to].dims[1]: "1"}), expected, rtol=1e-6)


def test_the_last_model_is_measured_as_the_others_are():
    module = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Dropout()).train()
    state = copy.deepcopy(module.state_dict())
    data = torch.randn(20, 5), torch.randn(20, 7)
    trace = ds.torch.replay(module, {0: state, 1: state}, "mse", data, {"last": ds.torch.cka("*", to="last")})
    np.testing.assert_allclose(trace["last"], 1, rtol=1e-9)


def test_activations_are_those_of_the_outputs():
    module = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(inplace=True))
    x = torch.randn(30, 5)
    probes = {"inside": ds.torch.activations("1"), "before": ds.torch.activations("0")}
    watch = ds.torch.Watch(module, "mse", (x, torch.randn(30, 7)), probes)
    watch.record(0)
    assert not watch.trace.before_sparsity.any()  # though the next module writes into these outputs
    out = module(x).detach().double().numpy()
    values = np.linalg.svd(out - out.mean(axis=0), compute_uv=False)
    shares = values**2 / np.sum(values**2)
    trace = watch.trace.isel(step=0, module=0)
    assert float(trace.inside) == pytest.approx(np.exp(-np.sum(shares * np.log(shares))), rel=1e-5)
    assert float(trace.inside_stable) == pytest.approx(np.sum(values**2) / values[0] ** 2, rel=1e-5)
    assert float(trace.inside_sparsity) == np.mean(out == 0)
    assert float(trace.inside_norm) == pytest.approx(np.sqrt(np.mean(np.sum(out**2, axis=1))), rel=1e-6)


def test_singular_values_and_updates():
    module = torch.nn.Linear(3, 2)
    x, y = torch.randn(6, 3), torch.randn(6, 2)
    probes = {"values": ds.torch.singular_values(3), "updates": ds.torch.weight_updates()}
    watch = ds.torch.Watch(module, "mse", (x, y), probes)
    watch.record(0)
    before = module.weight.detach().clone()
    with torch.no_grad():
        module.weight *= 1.5
    watch.record(1)
    expected = np.linalg.svd(before.numpy(), compute_uv=False)
    np.testing.assert_allclose(watch.trace["values"][0, 0, :2], expected, rtol=1e-5)
    np.testing.assert_allclose(watch.trace["values"][1, 0, :2], 1.5 * expected, rtol=1e-5)
    assert np.isnan(watch.trace["values"][:, 0, 2]).all()
    np.testing.assert_allclose(watch.trace["updates"][1].sel(parameter=["weight", "bias"]), [1 / 3, 0], rtol=1e-5)
    assert np.isnan(watch.trace["updates"][0]).all()
