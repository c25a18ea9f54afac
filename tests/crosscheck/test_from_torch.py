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
