"""Quadratic models of networks: trained beside their exact map, the rates at which they stop converging."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope.models import MLP, DiagonalForm, QuadraticModel, freeze_gates, linearize, quadratic
from dynascope.models.quadratic_model import unit_features
from dynascope.theory.catapult import critical_rates, quadratic_model
from dynascope.theory.catapult.largest_rate import largest_convergent

jax.config.update("jax_enable_x64", True)  # the maps are exact: compare them in float64

# a two-layer network and its Taylor models around its start; one example x with label y
dim, width, y = 5, 2000, 1.0
x = jax.random.normal(jax.random.key(1), (dim,))
network = MLP(dim, 2, key=jax.random.key(0), width=width, out=1, activation="relu", parameterization="ntk")
second, first = (
    freeze_gates(network),
    linearize(network),
)  # the quadratic model of two ReLU layers is closed
np.testing.assert_allclose(second(x), quadratic(network)(x))  # quadratic: that of any model, by jvp of jvp


def loss(model):
    return (model(x)[0] - y) ** 2 / 2


def kernel(model):
    gradient = jax.grad(lambda model: model(x)[0], allow_int=True)(model)
    return sum(jnp.sum(part**2) for part in jax.tree.leaves(gradient) if part.dtype == x.dtype)


# descent between 2/lambda and 4/lambda: the loss rises, the kernel falls until 2/lambda is above the rate
rate = 3.0 / kernel(network)
trace = ds.descend(second, loss, optax.sgd(rate), steps=60, record=1, probes={"loss": loss, "kernel": kernel}).trace
print("loss: first", float(trace.loss[0]), "highest", float(trace.loss.max()), "last", float(trace.loss[-1]))
print("eta lambda: first 3, last", float(rate * trace.kernel[-1]))

# the linear model at the same rate
linear = ds.descend(first, loss, optax.sgd(rate), steps=60, record=1).trace
print("loss of the linear model at the end:", float(linear.loss[-1]))

# the exact map of residual and kernel, two numbers instead of 12,000 weights
c = quadratic_model.curvature(x @ x, width, dim)
state = quadratic_model.State(second(x)[0] - y, kernel(second))
map_trace = ds.iterate(lambda state: quadratic_model.step(state, rate, y, c), state, steps=60, record=1,
                       probes={"kernel": lambda state: state.kernel}).trace  # fmt: skip
print("largest difference of the kernels:", float(np.abs(map_trace.kernel - trace.kernel).max()))

# the largest rate at which it converges, for a hundred starts of three widths at once, by bisection
widths = jnp.asarray([1e3, 1e4, 1e5])[:, None]
outputs, labels = jax.random.normal(jax.random.key(2), (2, 3, 100)) / np.sqrt(2)
found = jax.jit(largest_convergent)(outputs - labels, jnp.ones((3, 100)), labels, 1 / widths)
print("eta_max lambda_0, median by width:", np.round(np.median(found.low, axis=1), 4))

# critical rates of many examples, in the units of the loss they belong to
K = ds.geometry.tangent_kernel(network, jax.random.normal(jax.random.key(3), (32, dim)))
top = jnp.linalg.eigvalsh(K)[-1]
print("critical rate of the mean squared error:", float(critical_rates.critical_rate(top, 32, "mse")))
print("of half the sum of squares:", float(critical_rates.critical_rate(top, 32, "sum")))

# a quadratic model of one's own: w . phi(x) + gamma/2 w^T Sigma(x) w
signs = jnp.where(jnp.arange(100) % 2 == 0, 1.0, -1.0)
model = QuadraticModel(jax.random.normal(jax.random.key(4), (100,)), unit_features, DiagonalForm(signs), gamma=0.001)
point = jax.random.normal(jax.random.key(5), (100,))
own = ds.descend(model, lambda model: (model(point) - 1) ** 2 / 2, optax.sgd(2.8), steps=60, record=1).trace
print("highest loss over the first:", float(own.loss.max() / own.loss[0]), "last:", float(own.loss[-1]))
