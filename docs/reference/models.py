"""Examples of the names of `dynascope.models`, one for each cell."""

import jax
import jax.numpy as jnp
import numpy as np

import dynascope as ds

key = jax.random.key(0)
tokens = jnp.array([0, 1, 2, 1])

# %% dag_architectures
net = ds.models.dag_architectures.fully_connected([2, 4, 1], key=key)
net(jnp.ones(2))

# %% ga_mlp
ds.models.ga_mlp.sgc(3, 2, key=key)(jnp.ones((5, 3))).shape

# %% BudgetSplit
model = ds.models.BudgetSplit(6, 8, budget=2000, share=0.5, dim=8, key=key)
model(tokens).shape

# %% budget_split
ds.models.budget_split(2000, 0.5, dim=8)

# %% ConceptClassifier
model = ds.models.ConceptClassifier((8, 8, 3), channels=(8, 8), groups=4, heads=2, key=key)
model(jnp.zeros((8, 8, 3))).shape

# %% ConvNet
model = ds.models.ConvNet((8, 8, 1), (4, 8), out=10, key=key)
model(jnp.zeros((8, 8, 1))).shape

# %% myrtle5
model = ds.models.myrtle5((32, 32, 3), (4, 4, 8, 8), key=key)
model(jnp.zeros((32, 32, 3))).shape

# %% DAG
graph = ds.models.Graph.from_edges([(0, 2), (1, 2), (2, 3), (0, 3)])
ds.models.DAG.from_graph(graph, key=key)(jnp.ones(2))

# %% AttentionHead
head = ds.models.AttentionHead(dim=3)
head(jnp.ones((4, 3)), jnp.ones(head.size)).shape

# %% Diagonal
model = ds.models.Diagonal(jnp.ones(3), 2 * jnp.ones(3), ds.models.LinearNetwork(3))
print(model.product, model(jnp.ones(3)))

# %% DiagonalTransformer
network = ds.models.DiagonalTransformer(4, depth=1, heads=2, hidden=8, key=key)
network(jnp.ones((3, 4)), jnp.ones(network.size)).shape

# %% LinearNetwork
ds.models.LinearNetwork(3)(jnp.ones(3), jnp.arange(3.0))

# %% FeaturedGraph
ds.models.FeaturedGraph(ds.graphs.cycle(4).with_features(np.ones((4, 2), np.float32))).nodes

# %% GAMLP
ds.models.GAMLP(3, 2, key=key)(jnp.ones((5, 3))).shape

# %% SIGN
ds.models.SIGN(2, 3, 4, key=key)(jnp.ones(6)).shape

# %% GIN
graph = ds.models.FeaturedGraph(ds.graphs.cycle(4).with_features(np.ones((4, 2), np.float32)))
ds.models.GIN(2, depth=2, out=1, key=key)(graph).shape

# %% GPT
model = ds.models.GPT(6, 8, dim=16, depth=1, heads=2, hidden=16, key=key)
model(tokens).shape

# %% Graph
graph = ds.models.Graph.from_edges([(0, 2), (1, 2), (2, 3)])
print(graph.depth, graph.inputs, graph.outputs)

# %% MLP
model = ds.models.MLP(2, 3, width=16, out=1, key=key, activation="tanh", bias=True)
model(jnp.ones(2)).shape

# %% Symmetric
ds.models.Symmetric(jnp.eye(2)).matrix()

# %% OneLayerRecall
ds.models.OneLayerRecall(6)(tokens).shape

# %% DiagonalForm
form = ds.models.DiagonalForm(jnp.array([1.0, -1.0]))
type(form).__name__

# %% QuadraticModel
form = ds.models.DiagonalForm(jnp.array([1.0, -1.0]))
model = ds.models.QuadraticModel(jnp.ones(2), lambda x: x, form, gamma=0.1)
model(jnp.array([1.0, 2.0]))

# %% RecallTransformer
model = ds.models.RecallTransformer(6, 8, dim=16, key=key)
model(tokens).shape

# %% without_feed
model = ds.models.RecallTransformer(6, 8, dim=16, key=key)
ds.models.without_feed(model, 1)(tokens).shape

# %% SpectralGNN
adjacency = jnp.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
ds.models.SpectralGNN(depth=2, out=2, key=key)(adjacency).shape  # (nodes, out)

# %% WideResNet
model = ds.models.WideResNet((8, 8, 3), widening=1, stem=4, key=key)
model(jnp.zeros((8, 8, 3))).shape

# %% Gated
network = ds.models.MLP(2, 2, width=4, out=1, key=key, activation="relu")
type(ds.models.freeze_gates(network)).__name__

# %% Taylor
model = ds.models.linearize(ds.models.MLP(2, 2, width=4, out=1, key=key, activation="tanh"))
model.order

# %% freeze_gates
network = ds.models.MLP(2, 2, width=4, out=1, key=key, activation="relu")
ds.models.freeze_gates(network)(jnp.ones(2)) - network(jnp.ones(2))

# %% linearize
network = ds.models.MLP(2, 2, width=4, out=1, key=key, activation="tanh")
ds.models.linearize(network)(jnp.ones(2)) - network(jnp.ones(2))

# %% quadratic
network = ds.models.MLP(2, 2, width=4, out=1, key=key, activation="tanh")
ds.models.quadratic(network)(jnp.ones(2)) - network(jnp.ones(2))

# %% TorchModel
import torch  # needs dynascope[torch]

model = ds.models.from_torch(torch.nn.Linear(4, 2))
jax.vmap(model)(jnp.ones((3, 4))).shape  # called on one example, as every model

# %% from_torch
import torch  # needs dynascope[torch]

model = ds.models.from_torch(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh()), jnp.ones(4))
sorted(model.parameters)

# %% register_torch_function
import torch  # needs dynascope[torch]

ds.models.register_torch_function(torch.cumsum, lambda input, dim: jnp.cumsum(input, dim))

# %% to_torch
import torch  # needs dynascope[torch]

module = torch.nn.Linear(4, 2)
trained = jax.tree.map(lambda leaf: 2 * leaf, ds.models.from_torch(module))  # or what `ds.descend` returns
bool(torch.allclose(ds.models.to_torch(trained, module).weight, 2 * module.weight))

# %% Attention
ds.models.Attention(8, 2, key=key)(jnp.ones((3, 8))).shape

# %% Products
model = ds.models.Transformer(8, depth=2, heads=2, hidden=16, key=key)
model.products().left.shape  # product, layer, head, dim, head_dim

# %% Transformer
ds.models.Transformer(8, depth=2, heads=2, hidden=16, key=key)(jnp.ones((3, 8))).shape

# %% Diffusion
net = ds.models.UNet((8, 8, 3), channels=(8, 8), blocks=1, groups=4, heads=2, dropout=0.0, key=key)
float(ds.models.Diffusion(net).gamma(jnp.array(0.5)))

# %% generate
net = ds.models.UNet((8, 8, 3), channels=(8, 8), blocks=1, groups=4, heads=2, dropout=0.0, key=key)
ds.models.generate(
    ds.models.Diffusion(net), jnp.zeros((2, 4)), (8, 8, 3), key=key, steps=2
).shape  # one for a condition

# %% UNet
net = ds.models.UNet((8, 8, 3), channels=(8, 8), blocks=1, groups=4, heads=2, dropout=0.0, key=key)
net(jnp.zeros((8, 8, 3)), jnp.array(0.0), jnp.zeros(4)).shape

# %% ViT
model = ds.models.ViT((8, 8, 1), 10, patch=4, dim=16, depth=1, heads=2, hidden=16, key=key)
model(jnp.zeros((8, 8, 1))).shape
