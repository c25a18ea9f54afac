"""A vision transformer and a language model of your own, with spectra of their heads."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope.tasks.classification import Labeled, classification
from dynascope.tasks.data.digit_pairs import digit_pairs
from dynascope.tasks.data.text import encode
from dynascope.tasks.next_token import NextToken

# images and their classes, as whole numbers, on the device once and for all
pairs = digit_pairs(1000, 200)
train = Labeled(jnp.asarray(pairs.images.x_train), jnp.asarray(pairs.images.y_train))
test = Labeled(jnp.asarray(pairs.images.x_test), jnp.asarray(pairs.images.y_test))
task = classification(pairs.images.x_train)  # with pad=4, flip=True: other crops and mirror images at every step

# a vision transformer, and what to look at while it learns
net = ds.models.ViT(
    (8, 16, 1), 100, patch=4, dim=32, depth=2, heads=2, head_dim=16, hidden=32, key=jax.random.key(0)
)  # fmt: skip
trace = ds.descend(
    net, task, optax.adam(3e-3), steps=100, data=train, batch=100, key=jax.random.key(1), record=10,
    probes={
        "gained": ds.probes.perturbation_spectrum(lambda net: net.products()),
        "accuracy": ds.probes.probe(lambda snapshot: task.accuracy(snapshot.model, test), every=50),
    },
).trace  # fmt: skip
print(trace.gained.dims)  # step, product, layer, head, singular

# what the spectra say: stable rank, mean over heads, at the end
ranks = ds.curves.spectra.summary(trace.gained)
print(ranks.stable_rank.mean("head").isel(step=-1).round(2).to_pandas())
start = ds.geometry.product_singular_values(*net.products())
print(f"of the products at the start: {float(ds.curves.stable_rank(start).mean()):.2f}")

# the null: noise of the same size, matrix by matrix
key, quiet = jax.random.key(2), jax.tree.map(lambda leaf: leaf + 0.01 * jnp.sign(leaf), net.products())
noisy = ds.geometry.random_perturbation(key, quiet, net.products())
null = ds.geometry.perturbation_singular_values(noisy, net.products())
print(f"of noise: {float(ds.curves.stable_rank(null).mean()):.2f}")

# a language model on characters; `characters(path)` reads a file of yours
text = encode("the moon follows the river; the river follows the moon. " * 50)
words = NextToken(jnp.asarray(text.tokens), context=16)
gpt = ds.models.GPT(len(text.alphabet), 16, dim=32, depth=2, heads=2, hidden=64, key=jax.random.key(3))
talk = ds.descend(
    gpt, words, optax.adam(3e-3), steps=60, batch=16, key=jax.random.key(4), record=20,
    probes={"loss": ds.probes.loss(), "gained": ds.probes.perturbation_spectrum(lambda gpt: gpt.products())},
).trace  # fmt: skip
print(np.round(talk.loss.values, 2))

# any pair of factors will do: here the two layers of a linear network
linear = ds.models.MLP(6, 2, width=3, key=jax.random.key(5))
target = jax.random.normal(jax.random.key(6), (6, 6)) / 3


def misses(linear):
    return jnp.mean((linear.matrix() - target) ** 2)


probe = ds.probes.perturbation_spectrum(lambda net: (net.weights[1], net.weights[0].T), dims=("singular",))
path = ds.descend(linear, misses, optax.sgd(0.5), steps=200, record=20, probes={"gained": probe}).trace
print(ds.curves.spectra.read(ds.curves.effective_rank, path.gained).values.round(2))
