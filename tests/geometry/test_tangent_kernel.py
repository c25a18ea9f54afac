"""The tangent kernel by its three ways against the contraction of the whole Jacobian; and what is read off it."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.geometry import kernel_spectrum, layerwise_kernel
from dynascope.models import MLP, ConvNet, WideResNet, linearize, myrtle5

KEY = jax.random.key(0)
SHAPE = (8, 8, 2)
MODELS = {
    "fcn": lambda: MLP(128, 3, key=KEY, width=20, out=3, activation="relu", parameterization="ntk"),
    "fcn, biases": lambda: MLP(128, 3, key=KEY, width=20, out=3, activation="tanh", bias=True),
    "fcn, ntk biases": lambda: MLP(128, 2, key=KEY, width=20, out=1, bias=True, parameterization="ntk"),
    "cnn": lambda: ConvNet(SHAPE, (6, 6), key=KEY, out=2),
    "cnn, biases": lambda: ConvNet(SHAPE, (6,), key=KEY, out=2, parameterization="standard", bias=True),
    "myrtle": lambda: myrtle5(SHAPE, (4, 6, 8, 8), key=KEY, bias=True),
    "residual": lambda: WideResNet(SHAPE, 10, 2, key=KEY, stem=4),
}


def images(name, n=4):
    x = jax.random.normal(jax.random.key(1), (n, *SHAPE))
    return x.reshape(n, -1) if name.startswith("fcn") else x


def call(model, x):
    return model(x)


@eqx.filter_jit
def jacobian(model, x, apply):
    """Of all outputs in all parameters, a matrix for each leaf."""
    outputs = jax.vmap(lambda x: apply(model, x))(x)
    found = jax.jacrev(lambda model: jax.vmap(lambda x: apply(model, x))(x))(model)
    return [leaf.reshape(outputs.size, -1) for leaf in jax.tree.leaves(found)]


def contracted(model, x, apply=call):
    """J J^T from the whole Jacobian."""
    return sum(part @ part.T for part in (np.asarray(leaf, np.float64) for leaf in jacobian(model, x, apply)))


@pytest.mark.parametrize(
    ("name", "x64", "agreement"),
    [(name, True, 1e-12) for name in MODELS] + [("fcn", False, 1e-5), ("cnn", False, 1e-5)],
)
def test_layer_by_layer_it_is_the_jacobian_contracted(name, x64, agreement):
    with jax.enable_x64(x64):
        model, x = MODELS[name](), images(name)
        exact = contracted(model, x)
        found = ds.geometry.tangent_kernel(model, x, budget=20_000)  # few channels at a time
        np.testing.assert_allclose(found, exact, rtol=0, atol=agreement * np.abs(exact).max())


@pytest.mark.parametrize("name", ["fcn, biases", "cnn, biases"])
def test_layer_by_layer_and_block_by_block_it_is_the_same(name):
    with jax.enable_x64(True):
        model, x = MODELS[name](), images(name, n=5)
        one = layerwise_kernel.bytes_of_layers(model, x) // 5
        exact = contracted(model, x)
        for held in (1, 2, 5):  # so many examples at a time: blocks of 1, a last block that is not full, all at once
            found = ds.geometry.tangent_kernel(model, x, budget=5 * one if held == 5 else 2 * held * one)
            np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * np.abs(exact).max())


def test_what_is_held_is_bounded_by_the_budget():
    model, x, budget = ConvNet((16, 16, 3), (8,), key=KEY), jnp.ones((64, 16, 16, 3)), 2**19

    def held(budget):
        program = (
            jax.jit(lambda model, x: ds.geometry.tangent_kernel(model, x, budget=budget)).lower(model, x).compile()
        )
        return program.memory_analysis().temp_size_in_bytes

    assert held(2**30) > 4 * budget > 1.1 * budget > held(budget)


@pytest.mark.parametrize(("statistics", "budget"), [(None, 2**30), ({"bytes_limit": 2**36}, 2**34)])
def test_a_device_with_memory_of_its_own_has_a_larger_budget(statistics, budget, monkeypatch):
    device = SimpleNamespace(memory_stats=lambda: statistics)
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert kernel_spectrum.usual_budget() == budget


def test_a_kernel_whose_making_does_not_fit_is_known_by_its_products(monkeypatch):
    model, x = MODELS["cnn"](), images("cnn")
    assert kernel_spectrum.kernel_operator(model, x)[2] is not None
    monkeypatch.setattr(kernel_spectrum, "usual_budget", lambda: layerwise_kernel.bytes_of_layers(model, x) - 1)
    assert kernel_spectrum.kernel_operator(model, x)[2] is None


class Gained(eqx.Module):
    """A network with one parameter more, which its tap_maps maps do not have."""

    network: MLP
    gain: jax.Array

    def tap_maps(self, x, tap):
        return self.gain * self.network.tap_maps(x, tap)

    def __call__(self, x):
        return self.gain * self.network(x)


def test_parameters_beside_the_tapped_maps_are_told_in_one_line():
    model, x = Gained(MODELS["fcn"](), jnp.ones(())), images("fcn")
    line = "maps in Gained.tap_maps must have all 3021 parameters of the model, each once; they have 3020"
    for look in (ds.geometry.tangent_kernel, ds.geometry.critical_rate):
        with pytest.raises(ValueError, match=line):
            look(model, x)
    np.testing.assert_allclose(
        ds.geometry.tangent_kernel(model, x, apply=call), contracted(model, x), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("name", ["fcn", "cnn"])
@pytest.mark.parametrize("budget", [2**30, 200_000])
def test_by_gradients_it_is_the_same_also_in_blocks(name, budget):
    with jax.enable_x64(True):
        model, x = MODELS[name](), images(name)
        found = ds.geometry.tangent_kernel(model, x, apply=call, budget=budget)
        exact = contracted(model, x)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * np.abs(exact).max())


@pytest.mark.parametrize("rows", [None, 2])
def test_products_are_those_of_the_matrix(rows):
    with jax.enable_x64(True):
        model, x = MODELS["cnn"](), images("cnn", n=6)
        kernel = ds.geometry.tangent_kernel(model, x)
        outputs, product = ds.geometry.kernel_product(model, x, rows=rows)
        vector = jax.random.normal(jax.random.key(5), outputs.shape)
        np.testing.assert_allclose(product(vector), kernel @ vector, rtol=1e-12)
        np.testing.assert_allclose(outputs, jax.vmap(model)(x).ravel(), rtol=1e-12)


def dictionary():
    first, bias, last = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate(((4, 5), (5,), (5,))))
    return {"params": {"Dense_0": {"kernel": first, "bias": bias}, "Dense_1": {"kernel": last}}}


def apply_dictionary(variables, x):
    """As Flax has it: a dictionary of arrays and a function; one number comes out, without an axis."""
    params = variables["params"]
    hidden = jnp.tanh(x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"])
    return hidden @ params["Dense_1"]["kernel"]


def test_a_dictionary_of_arrays_has_one_too():
    with jax.enable_x64(True):
        params, x, y = dictionary(), jax.random.normal(jax.random.key(9), (6, 4)), jnp.arange(6.0)
        exact = contracted(params, x, apply_dictionary)
        found = ds.geometry.tangent_kernel(params, x, apply=apply_dictionary)
        np.testing.assert_allclose(found, exact, atol=1e-12 * np.abs(exact).max())
        rate = ds.geometry.critical_rate(params, x, apply=apply_dictionary)
        np.testing.assert_allclose(rate, 6 / np.linalg.eigvalsh(exact)[-1], rtol=1e-10)
        split = ds.geometry.eigenspace_losses(params, x, y, (2,), apply=apply_dictionary)
        loss = jnp.mean((jax.vmap(lambda x: apply_dictionary(params, x))(x) - y) ** 2)
        np.testing.assert_allclose(split.top + split.rest, loss, rtol=1e-12)


@pytest.mark.parametrize("formed", [True, False])
def test_eigenpairs_are_those_of_the_matrix_with_true_residuals(formed):
    with jax.enable_x64(True):
        model = MLP(6, 3, key=KEY, width=30, out=1, activation="relu", parameterization="ntk")
        x = jax.random.normal(jax.random.key(1), (300, 6))  # more rows than are diagonalized
        kernel = contracted(model, x)
        exact = np.linalg.eigvalsh(kernel)[::-1]
        found = ds.geometry.kernel_eigenpairs(model, x, 3, tolerance=1e-10, formed=formed)
        assert found.converged.all()
        np.testing.assert_allclose(found.values, exact[:3], rtol=1e-9)
        residuals = np.linalg.norm(found.vectors @ kernel - found.values[:, None] * found.vectors, axis=1)
        np.testing.assert_allclose(found.residuals, residuals, atol=1e-9 * exact[0])


def test_below_its_critical_rate_a_linear_model_converges_and_above_it_diverges():
    """In both conventions: the largest |1 - rate slope lambda| is below or above 1."""
    with jax.enable_x64(True):
        model = linearize(MLP(5, 2, key=KEY, width=20, out=2, activation="tanh", parameterization="ntk"))
        x = jax.random.normal(jax.random.key(1), (7, 5))
        losses = {
            "mse": lambda model, x: jnp.mean((jax.vmap(model)(x) - 1) ** 2),
            "sum": lambda model, x: jnp.sum((jax.vmap(model)(x) - 1) ** 2) / 2,
        }
        for convention, loss in losses.items():
            critical = float(ds.geometry.critical_rate(model, x, convention=convention))
            ends = []
            for factor in (0.99, 1.01):
                trace = ds.descend(
                    model, loss, optax.sgd(factor * critical), steps=1000, data=x, record=[0, 1000]
                ).trace
                ends.append(float(trace.loss[-1] / trace.loss[0]))
            assert ends[0] < 1 < 10 < ends[1], (convention, ends)


def test_the_change_is_that_of_the_matrices():
    with jax.enable_x64(True):
        start = MODELS["fcn"]()
        model = jax.tree.map(lambda leaf: 1.1 * leaf, start)
        x = images("fcn")
        now, then = contracted(model, x), contracted(start, x)
        exact = np.linalg.norm(now - then, 2) / np.linalg.norm(then, 2)
        for formed in (True, False):
            np.testing.assert_allclose(ds.geometry.kernel_change(model, start, x, formed=formed), exact, rtol=1e-4)


def test_the_loss_is_split_by_the_eigenvectors():
    with jax.enable_x64(True):
        model, x = MODELS["fcn, ntk biases"](), images("fcn")
        y = jnp.ones(4)
        values, columns = np.linalg.eigh(contracted(model, x))
        errors = np.asarray(jax.vmap(model)(x))[:, 0] - 1
        parts = (columns[:, ::-1].T @ errors) ** 2 / 4
        split = ds.geometry.eigenspace_losses(model, x, y, (1, 3))
        np.testing.assert_allclose(split.top, [parts[0], parts[:3].sum()], rtol=1e-8)
        np.testing.assert_allclose(split.rest, [parts[1:].sum(), parts[3:].sum()], rtol=1e-8)
        half = ds.geometry.eigenspace_losses(model, x, y, (1, 3), convention="sum")
        np.testing.assert_allclose(half.top, 2 * split.top, rtol=1e-12)  # half the sum of 4 entries, not their mean
        np.testing.assert_allclose(half.rest, 2 * split.rest, rtol=1e-12)
        ratio = ds.geometry.polyak_ratio(model, x, y)
        np.testing.assert_allclose(ratio, (parts @ values[::-1]) / parts.sum(), rtol=1e-10)
        assert values[0] <= float(ratio) <= values[-1]


def squares(model, data):
    return jnp.mean((jax.vmap(model)(data[0])[:, 0] - data[1]) ** 2)


@pytest.mark.parametrize("formed", [None, False])
def test_in_the_loop_it_says_the_same(formed):
    with jax.enable_x64(True):
        x, y = jax.random.normal(jax.random.key(2), (20, 6)), jnp.where(jnp.arange(20) % 2 == 0, 1.0, -1.0)
        net = MLP(6, 2, key=KEY, width=16, out=1, activation="relu", parameterization="ntk")
        probes = {
            "loss": ds.probes.loss(),
            "kernel": ds.probes.kernel_norm(x, y, (1, 2), tolerance=1e-9, formed=formed),
            "distance": ds.probes.kernel_distance(x, formed=formed),
            "kept": ds.probes.probe(lambda m: jax.flatten_util.ravel_pytree(m.model)[0], dims=("w",)),
        }
        trace = ds.descend(net, squares, optax.sgd(1.0), steps=6, data=(x, y), record=1, probes=probes).trace
        at = eqx.combine(jax.flatten_util.ravel_pytree(net)[1](trace.kept.values[-1]), net)
        exact, first = contracted(at, x), contracted(net, x)
        np.testing.assert_allclose(trace.kernel[-1], np.linalg.eigvalsh(exact)[-1], rtol=1e-7)
        np.testing.assert_allclose(trace.kernel_critical_rate, 20 / trace.kernel, rtol=1e-12)
        np.testing.assert_allclose((trace.kernel_top + trace.kernel_rest).sel(split=2), trace.loss, rtol=1e-10)
        distance = np.linalg.norm(exact - first, 2) / np.linalg.norm(first, 2)
        np.testing.assert_allclose(trace.distance[-1], distance, rtol=1e-3)
        assert trace.distance[0] == 0


def test_top_and_rest_add_up_to_the_loss_of_the_convention():
    with jax.enable_x64(True):
        x, y = jax.random.normal(jax.random.key(2), (20, 6)), jnp.ones(20)
        net = MLP(6, 2, key=KEY, width=16, out=1, activation="relu", parameterization="ntk")

        def half_sum(model, data):
            return 10 * squares(model, data)

        probes = {"loss": ds.probes.loss(), "kernel": ds.probes.kernel_norm(x, y, (1,), convention="sum")}
        trace = ds.descend(net, half_sum, optax.sgd(0.01), steps=2, data=(x, y), record=1, probes=probes).trace
        np.testing.assert_allclose((trace.kernel_top + trace.kernel_rest).sel(split=1), trace.loss, rtol=1e-10)


def test_each_batch_has_a_critical_rate_of_its_own():
    with jax.enable_x64(True):
        x, y = jax.random.normal(jax.random.key(2), (20, 6)), jnp.ones(20)
        net = MLP(6, 2, key=KEY, width=16, out=1, activation="relu", parameterization="ntk")
        probes = {"rate": ds.probes.batch_critical_rate(), "rows": ds.probes.batch_rows()}
        trace = ds.descend(net, squares, optax.sgd(0.0), steps=4, data=(x, y), batch=5, key=KEY, record=1,
                           probes=probes).trace  # fmt: skip
        kernel = contracted(net, x)
        for rate, rows in zip(trace.rate.values, trace.rows.values, strict=True):
            np.testing.assert_allclose(rate, 5 / np.linalg.eigvalsh(kernel[np.ix_(rows, rows)])[-1], rtol=1e-8)


@pytest.mark.parametrize("name", ["fcn, biases", "cnn"])
def test_a_model_in_half_precision_has_one_in_float32(name):
    whole, x = MODELS[name](), images(name)
    half, there = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (whole, x))
    exact = contracted(whole, x)
    for apply in (None, call):
        found = ds.geometry.tangent_kernel(half, there, apply=apply)
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, exact, rtol=0, atol=0.05 * np.abs(exact).max())
    top = np.linalg.eigvalsh(exact)[-1]
    for formed, rows in ((True, None), (False, None), (False, 2)):
        pairs = ds.geometry.kernel_eigenpairs(half, there, 1, formed=formed, rows=rows, tolerance=1e-2)
        np.testing.assert_allclose(pairs.values[0], top, rtol=0.05)
    probes = {"kernel": ds.probes.kernel_norm(there), "distance": ds.probes.kernel_distance(there)}
    mean = lambda model, x: jnp.mean(jax.vmap(model)(x) ** 2)  # noqa: E731
    trace = ds.descend(half, mean, optax.sgd(0.01), steps=1, data=there, record=1, probes=probes).trace
    np.testing.assert_allclose(trace.kernel[0], top, rtol=0.05)
    assert np.isfinite(trace.distance).all()


def test_a_model_in_float32_has_products_where_float64_is_on():
    with jax.enable_x64(True):
        model, x = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (MODELS["fcn"](), images("fcn")))
        found = ds.geometry.kernel_eigenpairs(model, x, 1, formed=False)
        np.testing.assert_allclose(found.values[0], np.linalg.eigvalsh(contracted(model, x))[-1], rtol=1e-4)


def test_what_has_no_kernel_is_told_in_one_line():
    net, params, x = MODELS["fcn"](), dictionary(), jnp.ones((6, 4))
    with pytest.raises(TypeError, match=r"model must be callable, or apply\(params, x\) must be given; got "):
        ds.geometry.tangent_kernel(params, x)
    with pytest.raises(TypeError, match="must hold floating-point arrays"):
        ds.geometry.tangent_kernel({"count": jnp.arange(3)}, x, apply=lambda params, x: x)
    for wrong in (x[:0], 1.0, [[1.0, 2.0]], []):
        with pytest.raises((TypeError, ValueError), match=r"x must hold arrays|all arrays in x must have"):
            ds.geometry.critical_rate(params, wrong, apply=apply_dictionary)
    with pytest.raises(ValueError, match="all arrays in x must have the same number of rows"):
        ds.geometry.tangent_kernel(net, images("fcn")[:0])
    for rows in (0, -1, 4):
        with pytest.raises(ValueError, match=f"rows must (be an integer|divide the 6 examples).*; got {rows}"):
            ds.geometry.kernel_product(params, x, apply=apply_dictionary, rows=rows)
    with pytest.raises(ValueError, match=r"x and y must hold the same number of examples; got x: 6, y: 5"):
        ds.geometry.polyak_ratio(params, x, jnp.ones(5), apply=apply_dictionary)
    with pytest.raises(TypeError, match=r"splits must be a list of numbers of eigenvectors.*got \(\)"):
        ds.geometry.eigenspace_losses(params, x, jnp.ones(12), (), apply=apply_dictionary)


@pytest.mark.usefixtures("as_a_user")
def test_an_unknown_convention_is_named():
    with pytest.raises(ValueError, match="convention must be one of 'mse', 'sum'; got 'mean'"):
        ds.geometry.critical_rate(dictionary(), jnp.ones((6, 4)), apply=apply_dictionary, convention="mean")
