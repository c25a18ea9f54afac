"""PyTorch modules as models: the same outputs, gradients, curvature and training as in PyTorch, and the way back."""

import copy
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.sparse.linalg import eigsh

import dynascope as ds
from dynascope.geometry.layerwise_kernel import layers_of
from dynascope.geometry.tangent_kernel import flat_outputs

torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
pytest.importorskip("torch2jax", reason="the optional extra `torch` is not installed")
nn, F = torch.nn, torch.nn.functional
ROWS = 12


class Attention(nn.Module):
    """A block of a transformer: attention by the module, causal attention by hand, and a readout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.projection, self.out = nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, x):
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed)[0]
        q, k, v = self.projection(x).chunk(3, dim=-1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x.mean(dim=1))


def perceptron():
    return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Dropout(), nn.Linear(12, 12), nn.GELU(), nn.Linear(12, 3))


def convolutional():
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2), nn.Softplus(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip
    net[1].running_mean.uniform_(-1, 1)
    net[1].running_var.uniform_(0.5, 2)
    return net


NETWORKS = {
    "perceptron": (perceptron, (5,)),
    "convolutional": (convolutional, (2, 9, 9)),
    "attention": (Attention, (4, 8)),
}


def setting(name, precision="float32"):
    """The module, data x (ROWS, *shape) and y (ROWS, 3) as arrays of NumPy, and the same as tensors."""
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    module = make().to(getattr(torch, precision)).eval()
    draw = np.random.default_rng(0)
    x, y = (draw.standard_normal(shape).astype(precision) for shape in ((ROWS, *shape), (ROWS, 3)))
    return module, (x, y), (torch.from_numpy(x), torch.from_numpy(y))


def loss(model, data):
    x, y = data
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def gradients(module, tensors):
    """Outputs and, by name, the gradient of the mean squared error, in evaluation mode."""
    module = copy.deepcopy(module).eval()
    out = module(tensors[0])
    F.mse_loss(out, tensors[1]).backward()
    return out.detach().numpy(), {name: p.grad.numpy() for name, p in module.named_parameters()}


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_and_gradients_are_those_of_torch(name):
    module, data, tensors = setting(name)
    model = ds.models.from_torch(module)
    expected, expected_gradients = gradients(module, tensors)
    np.testing.assert_allclose(jax.vmap(model)(data[0]), expected, atol=1e-5)
    np.testing.assert_allclose(eqx.filter_jit(model)(jnp.asarray(data[0][0])), expected[0], atol=1e-5)
    found = eqx.filter_jit(eqx.filter_grad(loss))(model, data).parameters
    assert found.keys() == expected_gradients.keys()
    for key in found:
        np.testing.assert_allclose(found[key], expected_gradients[key], atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_top_eigenvalue_of_the_hessian_is_that_of_curvlinops(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        curvlinops = pytest.importorskip("curvlinops", reason="curvlinops-for-pytorch is not installed")
    module, data, tensors = setting(name, "float64")
    module.eval()
    with warnings.catch_warnings(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        warnings.simplefilter("ignore")
        operator = curvlinops.HessianLinearOperator(
            module, nn.MSELoss(), list(module.parameters()), [tensors], check_deterministic=False
        )
        expected = eigsh(operator.to_scipy(), k=1, which="LA", tol=1e-10, return_eigenvectors=False)
    with jax.enable_x64(True):
        model, data = ds.models.from_torch(module), jax.tree.map(jnp.asarray, data)
        for dense in (0, 10_000):
            found = ds.geometry.top_eigenpairs(lambda model: loss(model, data), model, tolerance=1e-9, dense=dense)
            np.testing.assert_allclose(found.values, expected, rtol=1e-7)


def test_hessian_vector_products_of_stacked_layer_norms_are_those_of_torch():
    """By two backward passes: PyTorch's forward derivative of the backward pass of layer_norm, which curvlinops takes,
    is wrong (pytorch/pytorch#196700)."""
    torch.manual_seed(0)
    module = nn.TransformerEncoderLayer(8, 2, 6, batch_first=True).double().eval()
    x = torch.randn(3, 4, 8, dtype=torch.float64)
    names, weights = zip(*module.named_parameters(), strict=True)
    along = tuple(torch.randn_like(weight) for weight in weights)

    def objective(*weights):
        return (torch.func.functional_call(module, dict(zip(names, weights, strict=True)), x) ** 3).mean()

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = torch.autograd.functional.vhp(objective, weights, along)[1]
    with jax.enable_x64(True):
        model, x = ds.models.from_torch(module), jnp.asarray(x.numpy())
        gradient = jax.grad(lambda p: jnp.mean(jax.vmap(eqx.tree_at(lambda m: m.parameters, model, p))(x) ** 3))
        direction = {name: jnp.asarray(value.numpy()) for name, value in zip(names, along, strict=True)}
        found = jax.jit(lambda p: jax.jvp(gradient, (p,), (direction,))[1])(model.parameters)
    for name, value in zip(names, expected, strict=True):
        np.testing.assert_allclose(found[name], value.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_tangent_kernel_is_the_product_of_jacobians(name):
    module, (x, _), _ = setting(name)
    model = ds.models.from_torch(module)
    jacobian = jax.jacrev(lambda p: jax.vmap(eqx.tree_at(lambda m: m.parameters, model, p))(x).ravel())(
        model.parameters
    )
    rows = np.concatenate([leaf.reshape(3 * ROWS, -1) for leaf in jax.tree.leaves(jacobian)], axis=1)
    kernel, exact = ds.geometry.tangent_kernel(model, jnp.asarray(x)), rows @ rows.T
    np.testing.assert_allclose(kernel, exact, rtol=0, atol=1e-5 * exact.max())
    layers = layers_of(*flat_outputs(model), jnp.asarray(x))
    assert all(leaf.ndim == 1 for leaf in layers.plain())  # all matrices and convolutions go by layers


@pytest.mark.parametrize("name", NETWORKS)
def test_it_trains_as_in_torch_and_goes_back(name):
    module, data, tensors = setting(name)
    before, model = copy.deepcopy(module.state_dict()), ds.models.from_torch(module)
    probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness(every=10)}
    trained = ds.descend(model, loss, optax.sgd(0.1, momentum=0.5), data=data, steps=20, record=1, probes=probes)

    peer = copy.deepcopy(module).eval()
    steps, losses = torch.optim.SGD(peer.parameters(), lr=0.1, momentum=0.5), []
    for _ in range(20):
        steps.zero_grad()
        value = F.mse_loss(peer(tensors[0]), tensors[1])
        losses.append(float(value.detach()))
        value.backward()
        steps.step()
    np.testing.assert_allclose(trained.trace.loss[:20], losses, rtol=1e-5)
    assert np.isfinite(trained.trace.sharpness).all()

    back = ds.models.to_torch(trained.model, module)
    for key, value in back.state_dict().items():
        np.testing.assert_allclose(value, peer.state_dict()[key], atol=1e-5)
    np.testing.assert_allclose(back.eval()(tensors[0]).detach(), jax.vmap(trained.model)(data[0]), atol=1e-5)
    assert not module.training
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())


@pytest.mark.parametrize("name", ["perceptron", "convolutional"])
def test_a_module_that_computes_otherwise_in_training_warns(name):
    module = setting(name)[0].train()
    with pytest.warns(UserWarning, match=r"is in training mode, but .* Call module\.eval\(\) first"):
        ds.models.from_torch(module)


TRACES = []


def counting():
    """A module with a function among its parts, that counts how often its program is traced in JAX."""
    module = nn.Sequential(nn.Linear(3, 4), CountingTanh(), nn.Linear(4, 3))
    module[1].scale = lambda x: 2 * x
    return module.eval()


class CountingTanh(nn.Module):
    def forward(self, x):
        if not isinstance(x, torch.Tensor):  # in JAX
            TRACES.append(1)
        return self.scale(torch.tanh(x))


def test_copies_of_a_module_are_compiled_once():
    first = counting()
    trained = copy.deepcopy(first)
    data = jnp.ones((5, 3)), jnp.ones((5, 3))
    with torch.no_grad():
        trained[0].weight += 1
    TRACES.clear()
    called, counts = eqx.filter_jit(lambda model, x: jax.vmap(model)(x)), []
    for module in (first, copy.deepcopy(first), trained, counting()):
        model = ds.models.from_torch(module)
        np.testing.assert_allclose(called(model, data[0]), module(torch.ones(5, 3)).detach(), rtol=1e-5)
        counts.append(len(TRACES))
    assert counts == [1, 1, 1, 1]
    for modules in ([first] * 3, [first, trained, counting()]):
        models = [ds.models.from_torch(module) for module in modules]
        ds.observe(models, loss, data=data, probes={"sharpness": ds.probes.sharpness()})
        counts.append(len(TRACES))
    assert counts[5] - counts[4] == counts[4] - counts[3]


def test_another_program_of_the_same_name_is_compiled_anew():
    """As when a cell of a notebook defines a class again."""

    def make(factor):
        class Scaled(nn.Linear):
            def forward(self, x):
                return factor * super().forward(x)

        Scaled.__qualname__, Scaled.__module__ = "Scaled", __name__
        globals()["Scaled"] = Scaled  # importable by name, as a class of a notebook is
        module = Scaled(2, 2)
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
        return module

    called = eqx.filter_jit(lambda model, x: model(x))
    found = [float(called(ds.models.from_torch(make(factor)), jnp.ones(2))[0]) for factor in (1, 3)]
    del globals()["Scaled"]
    assert found == [2, 6]


def language_model(family):
    transformers = pytest.importorskip("transformers", reason="the optional extra `lm` is not installed")
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    none = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    configs = {
        "gpt2": lambda: transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=20, n_positions=16, **none),
        "llama": lambda: transformers.LlamaConfig(**small, num_key_value_heads=1, vocab_size=20, **none),
        "neox": lambda: transformers.GPTNeoXConfig(**small, vocab_size=20, **none),
        "bert": lambda: transformers.BertConfig(**small, vocab_size=20, max_position_embeddings=16),
    }
    kind = "AutoModelForMaskedLM" if family == "bert" else "AutoModelForCausalLM"
    return lambda attention: getattr(transformers, kind).from_config(configs[family](), attn_implementation=attention)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama", "neox", "bert"])
def test_language_models_with_eager_attention_are_converted(family):
    ds.models.from_torch(language_model(family)("eager").eval(), np.arange(7))  # compares with PyTorch


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", ["gpt2", "llama", *(pytest.param(name, marks=pytest.mark.long) for name in ("neox", "bert"))]
)
def test_language_models_have_the_gradients_and_the_sharpness_of_torch(family):
    """In double precision, but Llama takes the means of its normalizations in single precision."""
    torch.manual_seed(0)
    module = language_model(family)("sdpa").double().eval()
    ids = torch.randint(20, (6, 7))
    value = F.cross_entropy(module(ids).logits.flatten(0, 1), ids.flatten())
    value.backward()

    def cross_entropy(model, ids):
        logs = jax.nn.log_softmax(jax.vmap(model)(ids))
        return -jnp.mean(jnp.take_along_axis(logs, ids[..., None], axis=-1))

    options = {"tolerance": 1e-7, "max_products": 500}
    probes = {"loss": ds.torch.loss(), "sharpness": ds.torch.sharpness(**options)}
    watch = ds.torch.Watch(module, lambda m, b: F.cross_entropy(m(b).logits.flatten(0, 1), b.flatten()), ids, probes)
    watch.record(0)
    with jax.enable_x64(True):
        model, rows = ds.models.from_torch(module, ids[0].numpy()), jnp.asarray(ids.numpy())
        gradient = eqx.filter_jit(eqx.filter_grad(cross_entropy))(model, rows).parameters
        probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness(**options)}
        trace = ds.observe([model], cross_entropy, data=rows, probes=probes)
    for name, parameter in module.named_parameters():
        expected = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad
        np.testing.assert_allclose(gradient[name], expected, rtol=1e-5, atol=1e-7, err_msg=name)
    np.testing.assert_allclose(trace.loss, watch.trace.loss, rtol=1e-6)
    np.testing.assert_allclose(trace.sharpness, watch.trace.sharpness, rtol=1e-5)
