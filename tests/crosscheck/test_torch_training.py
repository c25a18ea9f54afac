"""The same training in PyTorch, from the same weights on the same batches."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.dynamics.descend import epoch_words, permuted

torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")


@pytest.mark.parametrize("activation", ["linear", "relu"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_a_network_trains_as_it_does_in_torch(activation, optimizer):
    task = ds.tasks.StructuredIdentity((1.0, 2.0), 0.5, 4)
    data, key = task.dataset(jax.random.key(0), 32).x, jax.random.key(1)
    model = ds.models.MLP(4, 3, key=jax.random.key(2), width=6, activation=activation, bias=True)
    rule = {"sgd": optax.sgd(0.1), "momentum": optax.sgd(0.05, momentum=0.9), "adam": optax.adam(0.01)}[optimizer]
    trace = ds.descend(
        model, task, rule, steps=40, record=1, data=data, batch=16, key=key,
        probes={"loss": ds.probes.loss(), "output": ds.probes.output(task.test_point)},
    ).trace  # fmt: skip

    layers = []
    for index, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        layer = torch.nn.Linear(*weight.shape[::-1])
        layer.weight.data, layer.bias.data = torch.tensor(np.array(weight)), torch.tensor(np.array(bias))
        last = index == len(model.weights) - 1
        layers += [layer] if last or activation == "linear" else [layer, torch.nn.ReLU()]
    net, rows = torch.nn.Sequential(*layers), torch.tensor(np.array(data))
    make = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    }
    steps = make[optimizer](net.parameters())
    losses = []
    for t in range(41):
        losses.append(float(torch.nn.functional.mse_loss(net(rows), rows).detach()))
        order = permuted(epoch_words(key, jnp.asarray(t // 4)), jnp.arange(64, dtype=jnp.int32), 64)
        x = rows[torch.tensor(np.array(order[16 * (t % 4) : 16 * (t % 4) + 16]))]
        steps.zero_grad()
        torch.nn.functional.mse_loss(net(x), x).backward()
        steps.step()
    np.testing.assert_allclose(trace.loss, losses, rtol=1e-4)
