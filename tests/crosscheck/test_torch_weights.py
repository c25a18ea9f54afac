"""Which weights of a PyTorch module are trained, and what may go into one."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds

torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
pytest.importorskip("torch2jax", reason="the optional extra `torch` is not installed")
nn = torch.nn


def loss(model, data):
    x, y = data
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


class Tied(nn.Module):
    """One weight, under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(torch.tanh(self.embed(tokens)))


def test_tied_weights_stay_tied():
    module, tokens = Tied(), np.array([[0, 1, 2, 6], [3, 3, 5, 0]])
    model = ds.models.from_torch(module, tokens[0])
    assert list(model.parameters) == ["embed.weight"]
    y = np.random.default_rng(0).standard_normal((2, 4, 7)).astype("float32")
    out = module(torch.from_numpy(tokens))
    nn.functional.mse_loss(out, torch.from_numpy(y)).backward()
    np.testing.assert_allclose(jax.vmap(model)(tokens), out.detach(), atol=1e-6)
    found = eqx.filter_grad(loss)(model, (tokens, y))
    np.testing.assert_allclose(found.parameters["embed.weight"], module.embed.weight.grad, atol=1e-6)
    model = eqx.tree_at(lambda m: m.parameters["embed.weight"], model, jnp.ones((7, 4)))
    back = ds.models.to_torch(model, module)
    assert back.out.weight is back.embed.weight
    np.testing.assert_array_equal(back.out.weight.detach(), 1)


def test_frozen_parameters_and_buffers_do_not_move():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).eval()
    module[0].requires_grad_(False)
    model = ds.models.from_torch(module)
    assert set(model.parameters) == {"1.weight", "1.bias", "3.weight", "3.bias"}
    draw = np.random.default_rng(0)
    data = tuple(draw.standard_normal((8, width)).astype("float32") for width in (3, 2))
    trained = ds.descend(model, loss, optax.adamw(0.1), data=data, steps=3)
    after = trained.model.values()
    for name, tensor in (*module[0].named_parameters("0"), *module[1].named_buffers("1")):
        np.testing.assert_array_equal(after[name], tensor.detach())
    for name in model.parameters:
        assert not np.allclose(after[name], model.parameters[name])


def test_wrong_arguments_are_errors_of_one_line(monkeypatch):
    module = nn.Linear(2, 3)
    model = ds.models.from_torch(module)
    wrong = {
        "takes a torch.nn.Module; got a function": lambda: ds.models.from_torch(lambda x: x),
        "weight has no shape yet": lambda: ds.models.from_torch(nn.LazyLinear(3)),
        "made by from_torch; got a Linear": lambda: ds.models.to_torch(module, module),
        "bias is in the model only": lambda: ds.models.to_torch(model, nn.Linear(2, 3, bias=False)),
        r"weight is \(3, 2\) in the model and \(3, 4\)": lambda: ds.models.to_torch(model, nn.Linear(4, 3)),
    }
    for message, attempt in wrong.items():
        with pytest.raises(ValueError, match=message):
            attempt()
    monkeypatch.setitem(sys.modules, "torch2jax", None)
    with pytest.raises(ImportError, match=r"torch2jax is missing; install it with: pip install 'dynascope\[torch\]'"):
        ds.models.from_torch(module)
