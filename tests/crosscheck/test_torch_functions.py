"""Functions of PyTorch one by one, with their gradients; and what cannot be converted, in one line."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds

torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
pytest.importorskip("torch2jax", reason="the optional extra `torch` is not installed")
nn, F = torch.nn, torch.nn.functional


class Of(nn.Module):
    """A function of a batch, scaled by a parameter; there are a buffer and a constant that is neither."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.constant = function, torch.tensor([1.0, 2.0, 3.0, 4.0])
        self.weight = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 1.5]))
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)), persistent=False)

    def forward(self, x):
        return self.function(self, x * self.weight)


def in_place(m, x):
    y = x.clone()
    y += 1
    y[:, 0] = 3 * x[:, 0]
    return F.leaky_relu(y, 0.1, inplace=True) * y


FUNCTIONS = {
    "arithmetic": lambda m, x: 1 / (x**2 + 1) - (-x) / 2 + m.constant / (2 + x**2) + (m.constant - x),
    "elementwise": lambda m, x: torch.exp(torch.sin(x)) + (x.abs() + 1).log() + torch.rsqrt(x.square() + 1),
    "activations": lambda m, x: F.silu(x) + F.mish(x) + F.selu(x) + F.elu(x, 0.5) + F.leaky_relu(x, 0.2) + F.relu6(x),
    "smooth activations": lambda m, x: F.softplus(x, 2.0) + F.logsigmoid(x) + F.softsign(x) + torch.erf(x),
    "gelu": lambda m, x: F.gelu(x) - 2 * F.gelu(x, approximate="tanh"),
    "clipped": lambda m, x: F.hardtanh(x, -0.7, 0.9) + torch.clamp(x, min=-0.3) * x.clamp(max=1.0),
    "softmaxes": lambda m, x: F.softmax(x, dim=-1) + x.softmax(1) + F.log_softmax(x, 1) + x.logsumexp(1, True),
    "sums": lambda m, x: x.mean(dim=(1, 2), keepdim=True) + x.sum(-1, keepdim=True) * x.amax(1, keepdim=True),
    "variance": lambda m, x: x.var(dim=-1) + torch.var(2 * x, -1, correction=0),
    "shapes": lambda m, x: (
        x.permute(0, 2, 1).flatten(1).reshape(x.size(0), 2, -1).transpose(1, 2).unsqueeze(1).squeeze(1)
    ),
    "repeated": lambda m, x: x[:, None].expand(-1, 2, 3, -1).reshape((1, -1, 4)) + x.repeat(1, 2, 1).contiguous(),
    "padded": lambda m, x: F.pad(x, (1, 2, 0, 1), value=2.0),
    "pieces": lambda m, x: torch.cat(
        [x.chunk(2, -1)[0] * x.split((1, 3), dim=-1)[0], x.unbind(2)[3][..., None]], dim=-1
    ),
    "rows": lambda m, x: torch.stack([row * 2 for row in x[0]], dim=1)[None] + x.mT + torch.stack(x.unbind(1), 2),
    "products": lambda m, x: torch.einsum("bij,bkj->bik", x, x) @ x + torch.bmm(x, x.mT) @ torch.matmul(x, m.mask),
    "masks": lambda m, x: torch.where((x > 0).long().bool(), x, torch.zeros(())) + x.masked_fill(m.mask[:3] == 0, -1.0),
    "triangles": lambda m, x: torch.tril(x) + torch.triu(x, diagonal=1) * torch.arange(x.shape[2], device=x.device),
    "detached": lambda m, x: x.detach() * x + torch.ones_like(x) + torch.zeros_like(x, dtype=torch.int64).to(x.dtype),
    "in place": in_place,
    "without gradients": lambda m, x: constant(m, x) * x + changed_without_gradient(m, x),
    "affine": lambda m, x: torch.addmm(m.constant, x[0], m.mask, beta=0.5, alpha=2) + x.type(torch.float32),
    "gathered": lambda m, x: (
        torch.gather(x, -1, torch.tensor([[[0, 2], [3, 1]]])) * x.gather(1, (x > 9).long())[:, :2, :2]
    ),
    "nothing before": lambda m, x: torch.cat([torch.tensor([]), x], dim=-2),
    "shared heads": lambda m, x: F.scaled_dot_product_attention(
        x[:, None].expand(-1, 4, -1, -1), x[:, None, :2] * m.constant[:2, None, None], x[:, None, :2], enable_gqa=True
    ),
    "attention": lambda m, x: F.scaled_dot_product_attention(x, x, x, attn_mask=m.mask[1:, :3] > 0, scale=0.3),
    "normalized": lambda m, x: F.rms_norm(x, (4,)) + F.group_norm(x, 3, m.constant[:3]) + F.layer_norm(x, (4,)),
    "convolution": lambda m, x: F.conv1d(x, torch.ones(6, 1, 3), padding="same", groups=3),
    "equal numbers": lambda m, x: F.max_pool1d(0 * x + m.weight / m.weight.detach(), 3, 1, 1, 1),
    "pools": lambda m, x: F.avg_pool1d(x, 3, 1, 1, count_include_pad=False) + F.max_pool1d(x, 3, 1, 1),
}
SHAPES = {"grouped": (4, 8, 9), "transposed": (3, 5, 4), "pooled": (2, 9, 6), "volume": (1, 5, 5, 5), "encoder": (5, 8)}
LAYERS = {
    "grouped": lambda: nn.Conv2d(4, 8, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
    "transposed": lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1, dilation=2),
    "pooled": lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 1, 1), nn.AdaptiveAvgPool2d((3, 1))),
    "volume": lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.MaxPool3d(2)),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_and_its_gradient_are_those_of_torch(name):
    module, x = Of(FUNCTIONS[name]), np.random.default_rng(1).standard_normal((3, 4)).astype("float32")
    model = ds.models.from_torch(module)
    tensor = torch.from_numpy(x)[None]
    out = module(tensor)
    (out**2).sum().backward()
    gradient = eqx.filter_jit(eqx.filter_grad(lambda model: jnp.sum(model(jnp.asarray(x)) ** 2)))(model)
    np.testing.assert_allclose(model(jnp.asarray(x))[None].reshape(out.shape), out.detach(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient.parameters["weight"], module.weight.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_that_of_torch(name):
    torch.manual_seed(0)
    module, x = LAYERS[name]().eval(), np.random.default_rng(0).standard_normal(SHAPES[name]).astype("float32")
    expected = module(torch.from_numpy(x)[None])[0].detach()
    np.testing.assert_allclose(ds.models.from_torch(module)(jnp.asarray(x)), expected, atol=1e-5)


class Straight(torch.autograd.Function):
    """A sign whose gradient is said to be 1."""

    forward = staticmethod(lambda ctx, x: torch.sign(x))
    backward = staticmethod(lambda ctx, gradient: gradient)


@torch.no_grad()
def constant(m, x):
    y = m.constant * x
    y[:, 0] = 2 * x[:, 0]
    y.mul_(x)
    return F.relu(y, inplace=True)


def changed_without_gradient(m, x):
    y = x * m.constant
    seen = x > 0
    with torch.no_grad():
        y *= x
        y[:, 1] = 3.0
        seen[:, 0] = True
    return y * x * seen


UNCONVERTIBLE = {
    "torch.fft.fft": lambda m, x: torch.fft.fft(x).real,
    "torch.Tensor.cumsum": lambda m, x: x.cumsum(-1),
    "torch.sort": lambda m, x: torch.sort(x)[0],
    "torch.add": lambda m, x: torch.add(x, x, alpha=2),
    "torch.nn.functional.dropout": lambda m, x: F.dropout(x),
    "torch.randn is random": lambda m, x: x + torch.randn(4),
    "torch.randn_like is random": lambda m, x: x + torch.randn_like(x),
    "torch.autograd.Function Straight": lambda m, x: Straight.apply(x),
    "its program depends on the values": lambda m, x: x if x.sum() > 0 else -x,
    "it returns a tuple": lambda m, x: (x, x),
    "the batch axis is lost": lambda m, x: x.sum(),
}


@pytest.mark.parametrize("name", UNCONVERTIBLE)
def test_what_cannot_be_converted_is_named_in_one_line(name):
    module, x = Of(UNCONVERTIBLE[name]), np.ones((3, 4), "float32")
    model = ds.models.from_torch(module)
    for attempt in (lambda: eqx.filter_jit(model)(x), lambda: ds.models.from_torch(module, x)):
        with pytest.raises(ValueError, match=name) as caught:
            attempt()
        assert str(caught.value).startswith("cannot convert Of: ")
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith("measure the module without conversion, by dynascope.torch")
        assert ("ds.models.register_torch_function" in str(caught.value)) == ("no counterpart" in str(caught.value))


@pytest.fixture
def registry(monkeypatch):
    """What is registered in a test is forgotten after it."""
    from dynascope.models import torch_tensor

    monkeypatch.setattr(torch_tensor, "FUNCTIONS", dict(torch_tensor.FUNCTIONS))
    monkeypatch.setattr(torch_tensor, "AUTOGRAD", {})
    yield
    vars(torch_tensor.Tensor).get("cumsum") and delattr(torch_tensor.Tensor, "cumsum")


@pytest.mark.usefixtures("registry")
def test_a_function_that_was_registered_is_converted():
    @jax.custom_vjp
    def straight(x):
        return jnp.sign(x)

    straight.defvjp(lambda x: (jnp.sign(x), None), lambda _, gradient: (gradient,))
    ds.models.register_torch_function(torch.cumsum, lambda input, dim: jnp.cumsum(input, dim))
    ds.models.register_torch_function(Straight, straight)
    module = Of(lambda m, x: torch.cumsum(x, dim=1) * x.cumsum(-1) + Straight.apply(x))
    x = np.random.default_rng(1).standard_normal((3, 4)).astype("float32")
    module(torch.from_numpy(x)[None]).square().sum().backward()
    model = ds.models.from_torch(module, x)
    gradient = eqx.filter_grad(lambda model: jnp.sum(model(jnp.asarray(x)) ** 2))(model)
    np.testing.assert_allclose(gradient.parameters["weight"], module.weight.grad, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"), [((3, jnp.exp), "function must be"), ((torch.exp, 3), "counterpart")]
)
def test_what_is_no_function_is_not_registered(arguments, message):
    with pytest.raises(TypeError, match=message):
        ds.models.register_torch_function(*arguments)


def test_an_example_that_the_module_does_not_take_is_named():
    module, x = Of(lambda m, x: F.linear(x, m.mask[:, :3])), np.ones((3, 4), "float32")
    with pytest.raises(ValueError, match=r"^cannot convert Of: .*torch\.nn\.functional\.linear"):
        ds.models.from_torch(module)(x)
    with pytest.raises(ValueError, match=r"^example must be one input of the module, without the batch axis; .*mat1"):
        ds.models.from_torch(module, x)


def test_a_recurrent_network_is_named_by_its_operation():
    class Recurrent(nn.LSTM):
        def forward(self, x):
            return super().forward(x)[0]

    with pytest.raises(ValueError, match=r"cannot convert Recurrent: torch.lstm"):
        ds.models.from_torch(Recurrent(3, 4, batch_first=True), np.ones((5, 3), "float32"))


def test_an_example_on_which_the_outputs_differ_is_refused():
    def through_a_view(m, x):
        x.view(-1).mul_(2)
        return x

    with pytest.raises(ValueError, match=r"the converted Of differs from PyTorch's on the example by 5.0e-01"):
        ds.models.from_torch(Of(through_a_view), np.ones((3, 4), "float32"))
