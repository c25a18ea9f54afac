"""Examples of the names of `dynascope.tasks`, one for each cell."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds

key = jax.random.key(0)

# %% arithmetic
problem = ds.tasks.arithmetic.make_problems(1)[0]
print(problem)
print(ds.tasks.arithmetic.answer_in("So there are 12 apples. The answer is 12."))

# %% axis_teacher
student = ds.tasks.AxisTeacher(dim=3).start(key)
ds.tasks.axis_teacher.outputs(student, jnp.eye(3)).shape

# %% diagonal
ds.tasks.diagonal.exit_and_return()._fields

# %% factorization
factors = ds.tasks.factorization.generic_start(key, (3, 3, 2), 0.1)
{name: value.shape for name, value in factors.items()}

# %% products
float(ds.tasks.products.two_factors(mu=1.0)(jnp.array([2.0, 1.0])))

# %% prompts
ds.tasks.prompts.DEMO

# %% scalar_losses
loss = ds.tasks.scalar_losses.quartic(mu=1.0)
print(loss.minimum, loss.derivatives(loss.minimum, 2))

# %% separable
ds.tasks.separable.SeparableLoss((jnp.square, jnp.square), jnp.eye(2))(jnp.array([1.0, 2.0]))

# %% single_neuron
ds.tasks.single_neuron.unit_teacher(3).teacher

# %% AssociativeMemory
task = ds.tasks.AssociativeMemory.orthonormal(4, alpha=0.1)
float(task.population_loss(task.start(key)))

# %% AxisTeacher
task = ds.tasks.AxisTeacher(dim=4)
student = task.start(key)
{name: value.shape for name, value in student.items()}

# %% propagated_features
graphs = ds.tasks.block_model_graphs(2, 20, 6.0, 1.0, seed=0)
ds.tasks.propagated_features(graphs, order=2).shape  # operators, graphs, nodes, powers

# %% Classification
batch = ds.tasks.Labeled(jnp.zeros((4, 8, 8, 1), jnp.uint8), jnp.arange(4))
task = ds.tasks.Classification(jnp.array([0.5]), jnp.array([0.3]))
net = ds.models.ConvNet((8, 8, 1), (4,), out=10, key=key)
float(task.loss(net, batch))

# %% Labeled
ds.tasks.Labeled(jnp.zeros((4, 8, 8, 1), jnp.uint8), jnp.arange(4)).x.shape

# %% CommunityGraphs
ds.tasks.block_model_graphs(2, 6, 4.0, 1.0, seed=0).labels

# %% block_model_graphs
graphs = ds.tasks.block_model_graphs(2, 20, 6.0, 1.0, seed=0)
print(graphs.nodes, graphs.senders.shape)

# %% overlap
labels = jnp.array([0, 0, 1, 1])
float(ds.tasks.overlap(1 - labels, labels))  # names do not matter

# %% unnamed_cross_entropy
logits = jnp.array([[[0.0, 3.0], [3.0, 0.0]]])
float(ds.tasks.unnamed_cross_entropy(logits, jnp.array([[0, 1]])))

# %% ConceptLabels
task = ds.tasks.ConceptLabels([ds.tasks.ImageConcepts(pixels=8)])
jax.tree.map(jnp.shape, task.sample(key, 4))

# %% datasets
ds.tasks.datasets.IMAGES

# %% images
ds.tasks.images.load("digits").x_train.shape

# %% two_classes
found = ds.tasks.two_classes("digits", (3, 9), 50, 20, key)
print(type(found).__name__, found._fields)

# %% DiagonalRegression
x = jax.random.normal(key, (20, 3))
task = ds.tasks.DiagonalRegression(ds.models.LinearNetwork(3), x, x[:, 0])
float(task.population_loss(ds.models.Diagonal(jnp.ones(3), jnp.ones(3), ds.models.LinearNetwork(3))))

# %% QuadraticLoss
model = ds.models.Diagonal(jnp.ones(2), jnp.ones(2), ds.models.LinearNetwork(2))
float(ds.tasks.QuadraticLoss(jnp.eye(2), jnp.ones(2)).population_loss(model))

# %% VariationalDiffusion
ds.tasks.VariationalDiffusion(data_noise=0.001)

# %% Factorization
task = ds.tasks.Factorization(jnp.diag(jnp.array([2.0, 1.0])))
float(task({"Y": jnp.eye(2), "Z": jnp.eye(2)}))

# %% SymmetricFactorization
float(ds.tasks.SymmetricFactorization(jnp.diag(jnp.array([2.0, 1.0])))(jnp.eye(2)))

# %% ImageConcepts
process = ds.tasks.ImageConcepts(color_separation=0.4, size_separation=0.4, pixels=16)
process.classes

# %% read_concepts
process = ds.tasks.ImageConcepts(pixels=16)
ds.tasks.read_concepts(jnp.ones((2, 16, 16, 3)), process)._fields

# %% IndirectObject
task = ds.tasks.IndirectObject(size=10, length=16)
task.sample(key, 2).tokens

# %% IndirectObjectBatch
ds.tasks.IndirectObject(size=10, length=16).sample(key, 2).target

# %% MultiIndex
task = ds.tasks.MultiIndex("rank-2", dim=4)
x, y = task.sample(key, 3)
print(x.shape, y.shape)

# %% NextToken
task = ds.tasks.NextToken(jnp.arange(50) % 7, context=8)
jax.tree.map(jnp.shape, task.sample(key, 2))

# %% NodeTask
graph = ds.models.FeaturedGraph(ds.graphs.cycle(4).with_features(np.ones((4, 1), np.float32)))
ds.tasks.NodeTask(graph, "mse")

# %% NoisyRecall
task = ds.tasks.NoisyRecall.uniform(5, length=12, alpha=0.5)
task.sample(key, 1).tokens

# %% RecallBatch
ds.tasks.NoisyRecall.uniform(5, length=12, alpha=0.5).sample(key, 1)._fields

# %% informative
batch = ds.tasks.NoisyRecall.uniform(5, length=12, alpha=0.5).sample(key, 4)
ds.tasks.informative(batch)

# %% most_frequent
ds.tasks.most_frequent(np.array([0.1, 0.5, 0.4]), 2)

# %% ProductLoss
task = ds.tasks.ProductLoss(target=1.0, scale=0.5)
task.step(jnp.array([2.0, 1.0]), 0.1)

# %% ScalarLoss
loss = ds.tasks.ScalarLoss(jnp.square, jnp.array(0.0))
print(loss.step(jnp.array(1.0), 0.1), loss.threshold)

# %% ExtendedLoss
task = ds.tasks.ExtendedLoss(jnp.array([1.0, 1.0]), jnp.zeros((2, 2)))
task(jnp.ones((2, 3)))

# %% SeparableLoss
task = ds.tasks.SeparableLoss((jnp.square, jnp.cos), jnp.eye(2))
task(jnp.array([1.0, 0.0]))

# %% SingleNeuron
task = ds.tasks.SingleNeuron(jnp.array([1.0, 0.0]))
float(task.population_loss({"v": jnp.array(1.0), "w": jnp.array([0.0, 1.0])}))

# %% doubled_example
x, y = ds.tasks.doubled_example(key, count=5, dim=3)
print(x.shape, y)

# %% Samples
found = ds.tasks.StructuredIdentity((1.0, 2.0), 0.1, 2).dataset(key, 3)
print(found.cluster, found.rejected)

# %% StructuredIdentity
task = ds.tasks.StructuredIdentity(mu=(1.0, 2.0), sigma=(0.05, 0.05), dim=4)
print(task.test_point, task.sample(key, 2).shape)

# %% random_rotation
rotation = ds.tasks.random_rotation(key, 3)
jnp.round(rotation @ rotation.T, 5)

# %% Supervised
task = ds.tasks.Supervised("mse", apply=lambda w, x: w @ x)
float(task.loss(jnp.ones(2), (jnp.eye(2), jnp.zeros(2))))


# %% AugmentedTask
class Noisy(ds.tasks.AugmentedTask):
    """Adds noise to every minibatch."""

    def augment(self, key, batch):
        return batch + 0.1 * jax.random.normal(key, batch.shape)

    def loss(self, model, batch):
        return jnp.mean((batch - model) ** 2)


ds.descend(jnp.zeros(()), Noisy(), optax.sgd(0.1), data=jnp.ones(8), batch=4, key=key, steps=20).model


# %% DataTask
class Mean(ds.tasks.DataTask):
    """The model is one number, close to the data."""

    def loss(self, model, batch):
        return jnp.mean((batch - model) ** 2)


ds.descend(jnp.zeros(()), Mean(), optax.sgd(0.4), data=jnp.arange(5.0), steps=20).model


# %% PopulationTask
class Bowl(ds.tasks.PopulationTask):
    """A loss in closed form."""

    def population_loss(self, model):
        return jnp.sum(model**2)


ds.descend(jnp.ones(2), Bowl(), optax.sgd(0.1), steps=20).model


# %% SampledTask
class Coin(ds.tasks.SampledTask):
    """The model is the probability of heads."""

    def sample(self, key, count):
        return jax.random.bernoulli(key, 0.3, (count,)).astype(jnp.float32)

    def loss(self, model, batch):
        return jnp.mean((batch - model) ** 2)


ds.descend(jnp.zeros(()), Coin(), optax.sgd(0.05), batch=64, key=key, steps=100).model

# %% Task
isinstance(ds.tasks.Supervised("mse"), ds.tasks.Task)


# %% VelocityTask
class Decay(ds.tasks.VelocityTask):
    """A flow in coordinates of its own."""

    def velocity(self, model):
        return -2 * model


ds.flow(jnp.ones(1), Decay(), times=[0.0, 1.0], probes={"w": lambda w: w}).model
