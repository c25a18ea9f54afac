"""A PyTorch module: trained and probed here, and its weights taken back to PyTorch."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds

try:
    import torch
except ImportError:
    print("this example needs PyTorch: pip install 'dynascope[torch]'")
    sys.exit(0)

x = jax.random.normal(jax.random.key(0), (256, 4))
y = jnp.sin(x[:, 0]) * x[:, 1]

network = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
model = ds.models.from_torch(network)  # called on one example, like every model here
trained = ds.descend(
    model,
    ds.tasks.Supervised("mse"),
    optax.adam(1e-2),
    data=(x, y),
    steps=300,
    probes={"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness(every=100)},
)
kernel = ds.geometry.tangent_kernel(trained.model, x[:16])
network = ds.models.to_torch(trained.model, network)  # a PyTorch module with the trained weights
with torch.no_grad():
    outputs = network(torch.tensor(np.array(x)))[:, 0].numpy()
print("loss in PyTorch", float(np.mean((outputs - np.asarray(y)) ** 2)), "here", float(trained.trace.loss[-1]))
