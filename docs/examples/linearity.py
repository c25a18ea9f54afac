"""Transition to linearity: a network on a graph, the Hessian of its output, and what it says of training."""

import jax
import jax.numpy as jnp
import optax

import dynascope as ds
from dynascope.models import dag_architectures

key = jax.random.key(0)
x = jax.random.normal(jax.random.key(1), (10,))

# any graph is a network: layers are longest paths, the width is the smallest in-degree past the first layer
graph = ds.models.Graph.from_edges([(0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (0, 4)])
toy = ds.models.DAG.from_graph(graph, key=key, activation="tanh")
print(f"layers {graph.layer.tolist()}, width {graph.width}, output {float(toy(jnp.ones(2))[0]):.3f}")


# the usual graphs have constructors; here each of the edges is removed once with probability 1/2
def halved(width):
    net = dag_architectures.densenet((10, width, width, 1), key=key, activation="swish")
    return dag_architectures.remove_edges(net, 0.5, key=jax.random.key(2))


def output(net):
    return net(x)[0]


# the norm of the Hessian of the output over all weights, with its error
for width in (32, 128):
    norm = ds.geometry.hessian_norm(output, halved(width))
    print(f"m = {width}: |H| = {float(norm.value):.3f} +- {float(norm.error):.0e}, {int(norm.products)} products")

# by blocks of layers: the output is linear in the last one
net = halved(32)
blocks = ds.geometry.block_norms(output, net, net.layer_numbers())
print(jnp.round(blocks.values, 3))
assert float(ds.geometry.hessian_norm(output, net).value) <= float(
    ds.theory.linearity.bounds.block_sum_bound(blocks.values)
)

# how far from its linearization at a distance 1: random directions see next to nothing of it
gap = ds.geometry.linearity_gap(output, net, 1.0, jax.random.key(3), among=net.edge_marks())
print(f"random {float(gap.random):.4f}, gradient {float(gap.gradient):.4f}, top eigenvectors {float(gap.hessian):.4f}")
print(f"|H| R^2 / 2 = {float(ds.theory.linearity.bounds.linear_model_gap(gap.norm, 1.0)):.4f}")

# the exact Hessian of a small network, neuron by neuron, without automatic differentiation
derivatives = ds.theory.linearity.hessian_recursion.derivatives(toy, jnp.ones(2))
dense = ds.geometry.dense_hessian(lambda net: net(jnp.ones(2))[0], toy)
assert jnp.allclose(derivatives[0].hessian.astype("float32"), dense, atol=1e-5)

# along descent: |grad L|^2 / (2 L) never falls below the smallest eigenvalue of the tangent kernel
points = jax.random.normal(jax.random.key(4), (6, 10))
labels = jnp.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])


def loss(net):
    return jnp.sum((jax.vmap(net)(points)[:, 0] - labels) ** 2) / 2


trace = ds.descend(net, loss, optax.sgd(0.1), steps=200, record=10, probes={"polyak": ds.probes.polyak(points)}).trace
print(trace.polyak.values[:3], trace.polyak_smallest.values[:3])
print(f"the kernel changed by {float(trace.polyak_change.max()):.0%}")
assert bool((trace.polyak >= 0.999 * trace.polyak_smallest).all())
