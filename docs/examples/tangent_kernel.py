"""Tangent kernels: of any model, layer by layer or by products; the critical rate, and where the loss lies."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds

x = jax.random.normal(jax.random.key(1), (64, 20))
y = jnp.where(x[:, 0] * x[:, 1] > 0, 1.0, -1.0)
net = ds.models.MLP(20, 3, width=256, out=1, key=jax.random.key(0), activation="relu", parameterization="ntk")


def loss(net, data):
    x, y = data
    return jnp.mean((jax.vmap(net)(x)[:, 0] - y) ** 2)


# the matrix, layer by layer; its top eigenpairs with residuals; the rate above which descent is unstable
kernel = ds.geometry.tangent_kernel(net, x)
found = ds.geometry.kernel_eigenpairs(net, x, k=3)
critical = ds.geometry.critical_rate(net, x, convention="mse")
print(f"kernel {kernel.shape}, top {np.round(found.values, 2)}, critical rate {float(critical):.3f}")
assert np.allclose(critical, 64 / found.values[0])

# without the matrix: products by derivatives, memory that of a gradient
outputs, product = ds.geometry.kernel_product(net, x)
searched = ds.geometry.kernel_eigenpairs(net, x, k=3, formed=False)
print(f"by {int(searched.products)} products: {np.round(searched.values, 2)}, residuals {searched.residuals}")
assert np.allclose(product(y), kernel @ y, rtol=1e-4, atol=1e-3)

# in the loop: above the critical rate the loss spikes in the top eigenvectors, and the norm of the kernel falls
trace = ds.descend(
    net, loss, optax.sgd(1.8 * critical), steps=60, data=(x, y), record=1,
    probes={
        "loss": ds.probes.loss(),
        "kernel": ds.probes.kernel_norm(x, y, splits=(1, 5)),
        "distance": ds.probes.kernel_distance(x, every=10),
    },
).trace  # fmt: skip
top, rest = trace.kernel_top.sel(split=5), trace.kernel_rest.sel(split=5)
peak = int(trace.loss.argmax("step"))
start, highest, end = (float(trace.loss[step]) for step in (0, peak, -1))
print(f"loss {start:.2f}, at its peak {highest:.2f}, at the end {end:.1e}")
print(f"of the peak, in the top 5: {float(top[peak]):.2f}, in the rest: {float(rest[peak]):.2f}")
print(f"norm of the kernel: {float(trace.kernel[0]):.1f}, then {float(trace.kernel[-1]):.1f}")
print(f"the kernel has moved by {float(trace.distance[-1]):.0%} of its norm")


# any pytree with a function of one example is a model: here as Flax keeps it
def apply(params, x):
    return jnp.tanh(x @ params["Dense_0"]["kernel"]) @ params["Dense_1"]["kernel"]


params = {
    "Dense_0": {"kernel": jax.random.normal(jax.random.key(2), (20, 50)) / 4},
    "Dense_1": {"kernel": jax.random.normal(jax.random.key(3), (50, 2)) / 7},
}
kernel = ds.geometry.tangent_kernel(params, x, apply=apply)
print(kernel.shape, float(ds.geometry.critical_rate(params, x, apply=apply)))


# any model, also of other libraries: its program says where the weights act, here three times
class Recurrent(eqx.Module):
    step: eqx.nn.Linear
    readout: eqx.nn.Linear

    def __call__(self, x):
        for _ in range(3):
            x = jnp.tanh(self.step(x))
        return self.readout(x)


own = Recurrent(eqx.nn.Linear(20, 20, key=jax.random.key(4)), eqx.nn.Linear(20, 2, key=jax.random.key(5)))
by_layers = ds.geometry.tangent_kernel(own, x)
parts, rest = eqx.partition(own, eqx.is_array)
jacobians = jax.vmap(jax.jacrev(lambda parts, x: eqx.combine(parts, rest)(x)), in_axes=(None, 0))(parts, x)
rows = [leaf.reshape(by_layers.shape[0], -1) for leaf in jax.tree.leaves(jacobians)]
from_jacobian = sum(part @ part.T for part in rows)
print(f"layer by layer and from the Jacobian differ by {float(jnp.max(jnp.abs(by_layers - from_jacobian))):.0e}")
assert np.allclose(by_layers, from_jacobian, rtol=1e-4, atol=1e-4)
