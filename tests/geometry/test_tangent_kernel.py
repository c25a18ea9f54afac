"""The tangent kernel by layers and by products against the whole Jacobian, contracted; and what is read off it."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.geometry import kernel_spectrum, layerwise_kernel
from dynascope.geometry.tangent_kernel import flat_outputs
from dynascope.models import GPT, MLP, ConvNet, WideResNet, linearize, myrtle5

KEY = jax.random.key(0)
SHAPE = (8, 8, 2)


class Attentive(eqx.Module):
    """A transformer of Equinox's parts: the embedding is also the readout, and two blocks share the attention."""

    embedding: eqx.nn.Embedding
    places: jax.Array
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    network: eqx.nn.MLP

    def __init__(self):
        self.embedding = eqx.nn.Embedding(7, 8, key=KEY)
        self.places = jax.random.normal(jax.random.key(1), (5, 8))
        self.attention = eqx.nn.MultiheadAttention(2, 8, use_query_bias=True, key=jax.random.key(2))
        self.norm = eqx.nn.LayerNorm(8)
        self.network = eqx.nn.MLP(8, 8, 12, 1, activation=jax.nn.gelu, key=jax.random.key(3))

    def __call__(self, tokens):
        h = jax.vmap(self.embedding)(tokens) + self.places
        for _ in range(2):
            normed = jax.vmap(self.norm)(h)
            h = h + self.attention(normed, normed, normed)
            h = h + jax.vmap(self.network)(jax.vmap(self.norm)(h))
        return h[-1] @ self.embedding.weight.T


class Convolutional(eqx.Module):
    """Convolutions in PyTorch's layout: with strides, a dilated kernel, a transposed one and one for each channel."""

    parts: eqx.nn.Sequential

    def __init__(self):
        keys = jax.random.split(KEY, 4)
        self.parts = eqx.nn.Sequential(
            [
                eqx.nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=2, key=keys[0]),
                eqx.nn.Lambda(jax.nn.gelu),
                eqx.nn.Conv2d(4, 4, 3, padding="SAME", groups=4, key=keys[1]),
                eqx.nn.ConvTranspose2d(4, 3, 3, stride=2, use_bias=False, key=keys[2]),
                eqx.nn.Lambda(jnp.ravel),
                eqx.nn.Linear(147, 2, key=keys[3]),
            ]
        )

    def __call__(self, x):
        return self.parts(jnp.transpose(x, (2, 0, 1)))


MODELS = {
    "fcn": lambda: MLP(128, 3, key=KEY, width=20, out=3, activation="relu", parameterization="ntk"),
    "fcn, biases": lambda: MLP(128, 3, key=KEY, width=20, out=3, activation="tanh", bias=True),
    "fcn, ntk biases": lambda: MLP(128, 2, key=KEY, width=20, out=1, bias=True, parameterization="ntk"),
    "fcn of equinox": lambda: eqx.nn.MLP(128, 3, 20, 2, key=KEY),
    "cnn": lambda: ConvNet(SHAPE, (6, 6), key=KEY, out=2),
    "cnn, biases": lambda: ConvNet(SHAPE, (6,), key=KEY, out=2, parameterization="standard", bias=True),
    "cnn of equinox": Convolutional,
    "myrtle": lambda: myrtle5(SHAPE, (4, 6, 8, 8), key=KEY, bias=True),
    "residual": lambda: WideResNet(SHAPE, 10, 2, key=KEY, stem=4),
    "tokens, equinox": Attentive,
    "tokens, gpt": lambda: GPT(7, 5, key=KEY, dim=8, depth=1, heads=2, hidden=12, scale=20.0),
}


def images(name, n=4):
    if name.startswith("tokens"):
        return jax.random.randint(jax.random.key(1), (n, 5), 0, 7)
    x = jax.random.normal(jax.random.key(1), (n, *SHAPE))
    return x.reshape(n, -1) if name.startswith("fcn") else x


def call(model, x):
    return model(x)


@eqx.filter_jit
def jacobian(model, x, apply):
    """Of all outputs in all parameters, a matrix for each leaf."""
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    outputs = jax.vmap(lambda x: apply(model, x))(x)
    found = jax.jacrev(lambda weights: jax.vmap(lambda x: apply(eqx.combine(weights, rest), x))(x))(weights)
    return [leaf.reshape(outputs.size, -1) for leaf in jax.tree.leaves(found)]


def contracted(model, x, apply=call):
    """J J^T from the whole Jacobian."""
    return sum(part @ part.T for part in (np.asarray(leaf, np.float64) for leaf in jacobian(model, x, apply)))


def layers_of(model, x, apply=None):
    return layerwise_kernel.layers_of(*flat_outputs(model, apply), x)


FLOATS = ("fcn", "cnn", "fcn of equinox", "tokens, equinox")


@pytest.mark.parametrize(
    ("name", "x64", "agreement"), [(name, True, 1e-12) for name in MODELS] + [(name, False, 1e-5) for name in FLOATS]
)
def test_layer_by_layer_it_is_the_jacobian_contracted(name, x64, agreement):
    with jax.enable_x64(x64):
        model, x = MODELS[name](), images(name)
        exact = contracted(model, x)
        found = ds.geometry.tangent_kernel(model, x, budget=20_000)  # few channels at a time
        np.testing.assert_allclose(found, exact, rtol=0, atol=agreement * np.abs(exact).max())


@pytest.mark.parametrize("name", MODELS)
def test_all_matrices_are_followed_to_affine_maps(name):
    """All but positions and biases, which are added, and kernels of convolutions with one channel each."""
    plain = [leaf.shape for leaf in layers_of(MODELS[name](), images(name)).plain() if leaf.ndim > 1]
    of_equinox = [(4, 1, 1), (4, 1, 3, 3), (4, 1, 1)]
    added = {"tokens, equinox": [(5, 8)], "tokens, gpt": [(5, 8)], "cnn of equinox": of_equinox}
    assert plain == added.get(name, [])


@pytest.mark.parametrize("name", ["fcn, biases", "cnn, biases", "tokens, equinox"])
def test_layer_by_layer_and_block_by_block_it_is_the_same(name):
    with jax.enable_x64(True):
        model, x = MODELS[name](), images(name, n=5)
        one = layers_of(model, x).bytes()
        exact = contracted(model, x)
        for held in (1, 2, 5):  # so many examples at a time: blocks of 1, a last block that is not full, all at once
            found = ds.geometry.tangent_kernel(model, x, budget=5 * one if held == 5 else 2 * held * one)
            np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * np.abs(exact).max())


@pytest.mark.parametrize("name", ["cnn, biases", "tokens, equinox", "tokens, gpt"])
def test_over_pairs_of_positions_it_is_the_same_as_over_rows_of_weights(name, monkeypatch):
    with jax.enable_x64(True):
        model, x = MODELS[name](), images(name)
        kernels, alike = [], layerwise_kernel.Layers.alike
        for choice in (lambda layers, together: False, alike):
            monkeypatch.setattr(layerwise_kernel.Layers, "by_positions", choice)
            kernels.append(ds.geometry.tangent_kernel(model, x, budget=2**30 - len(kernels)))  # compiled anew
        np.testing.assert_allclose(*kernels, rtol=0, atol=1e-12 * np.abs(kernels[0]).max())


def draw(*shape):
    return jax.random.normal(jax.random.key(sum(shape)), shape)


@jax.custom_jvp
def doubled(w, x):
    return w @ x


@doubled.defjvp
def _(given, along):
    """Not the true derivative: twice as large in x, three times in w."""
    return given[0] @ given[1], 3 * along[0] @ given[1] + 2 * given[0] @ along[1]


def looped(w, x):
    return jax.lax.scan(lambda h, _: (jnp.tanh(w @ h), None), x, length=3)[0]


def unrolled(w, x):
    for _ in range(3):
        x = jnp.tanh((2 * w.T / 3) @ x)
    return x


def scaled_by_the_example(w, x):
    return jnp.sin(-(w * x[0] / (2 + jnp.cos(x[1]))).astype(x.dtype)) @ x + (w * x[0]) @ x


def looked_up(w, x):
    """Rows within the table and beyond, where nothing is read, and one by one."""
    rows = jnp.array([1, 9, 1, 0]) + jnp.where(x[0] > 0, 1, 0)
    found = w.at[rows].get(mode="fill", fill_value=0.0)
    clipped = w.at[rows + 2].get(mode="clip", indices_are_sorted=False)
    return jnp.concatenate([(found * x).ravel(), (clipped * x).sum(axis=1), w[jnp.where(x[1] > 0, 3, 1)]])


USES = {
    "a loop": (looped, False),
    "a derivative of its own": (doubled, False),
    "a product of parameters": (lambda w, x: w.T[1:], True),
    "a nonlinearity": (lambda w, x: jnp.tanh(w) @ x, False),
    "a mask": (lambda w, x: (w * jnp.eye(4)) @ x, False),
    "several times": (unrolled, True),
    "and its transpose": (lambda w, x: w.T @ jnp.tanh(w @ x), True),
    "with itself": (lambda w, x: (w @ w) @ x, True),
    "its parts": (lambda w, x: jnp.split(w, 2)[0] @ x * (w[2:] @ jnp.sin(x)), True),
    "parts that overlap": (lambda w, x: w[1:] @ x * (w[:3] @ jnp.sin(x)), False),
    "a factor": (lambda w, x: (w * x[0] / (2 + jnp.cos(x[1]))) @ (-w @ x), True),
    "a factor, then unknown": (scaled_by_the_example, False),
    "a checkpoint": (lambda w, x: jax.checkpoint(lambda x: jnp.tanh(w @ x))(x), True),
    "compiled": (lambda w, x: jax.jit(lambda w, x: jnp.tanh(x @ w))(w, x), True),
    "a product over several axes": (lambda w, x: jnp.einsum("abc,b->ca", w.reshape(2, 4, 2), x), True),
    "a product over a common axis": (lambda w, x: jnp.einsum("ab,cb->ba", w, w) * x, False),
    "lookups": (looked_up, True),
    "lookups of part of a row": (lambda w, x: jax.lax.dynamic_slice(w, (jnp.int32(1), jnp.int32(0)), (1, 2))[0], False),
    "nothing": (lambda w, x: x, False),
}


@pytest.mark.parametrize("use", USES)
def test_a_parameter_may_be_used_in_any_way(use):
    """Where it cannot be followed it goes by gradients, and the others by layers."""
    function, followed = USES[use]

    def apply(params, x):
        inside = function(params["w"], jnp.tanh(params["first"] @ x) + params["bias"])
        return params["last"] @ inside.ravel()[:2]

    with jax.enable_x64(True):
        params = {"first": draw(4, 3), "bias": draw(4), "w": draw(4, 4), "last": draw(3, 2)}
        x = jax.random.normal(KEY, (5, 3))
        exact = contracted(params, x, apply)
        found = ds.geometry.tangent_kernel(params, x, apply=apply, budget=2**12)  # in blocks
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * np.abs(exact).max())
        layers = layers_of(params, x, apply)
    assert (3 in layers.program.followed) == followed  # the leaves in the order of their names
    assert {1, 2} <= layers.program.followed


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
    monkeypatch.setattr(kernel_spectrum, "usual_budget", lambda: len(x) * layers_of(model, x).bytes() - 1)
    assert kernel_spectrum.kernel_operator(model, x)[2] is None


def test_a_parameter_may_be_the_output():
    params, x = draw(3, 2), jnp.ones((4, 1))
    for apply in (lambda params, x: params, lambda params, x: 2 * params.T):
        found = ds.geometry.tangent_kernel(params, x, apply=apply)
        np.testing.assert_allclose(found, contracted(params, x, apply))


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
    found = ds.geometry.tangent_kernel(half, there)
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


def test_inputs_may_be_integers():
    weights, x = jax.random.normal(KEY, (3, 4)), np.arange(8).reshape(2, 4)

    def apply(weights, x):
        return jax.lax.dot_general(weights, x, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)

    kernel = ds.geometry.tangent_kernel(weights, x, apply=apply)
    np.testing.assert_allclose(kernel, np.kron(x @ x.T, np.eye(3)), rtol=1e-6)


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
