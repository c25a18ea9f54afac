# %% [markdown]
# # A phase diagram in one call
#
# One call of `ds.ensemble` performs two thousand training runs over a grid of settings. This tutorial maps the
# behavior of gradient descent as its learning rate grows: it converges, catapults to a flatter place, or diverges.

# %%
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib import pyplot

import dynascope as ds
from dynascope.figures import THEORY

# %% [markdown]
# ## One member
#
# A two-layer linear network $f = u \cdot v/\sqrt{m}$ learns the number 0 from one example, with loss $f^2/2$. Its
# tangent kernel is $\lambda = (|u|^2 + |v|^2)/m$.
#
# A member returns one run. Its fields set shapes; the arguments of its call are numbers, and they become the dimensions
# of the result.


# %%
def kernel(weights):
    return jnp.mean(jnp.sum(weights**2, axis=0))


class TwoLayers(ds.Member):
    """A two-layer linear network of the given width."""

    width: int

    def __call__(self, scale, learning_rate, seed):
        start = scale * jax.random.normal(jax.random.key(seed), (2, self.width))
        probes = {"loss": ds.probes.loss(), "kernel": kernel}
        return ds.Descent(start, self.loss, optax.sgd(learning_rate), probes=probes)

    def loss(self, weights):
        return (weights[0] @ weights[1]) ** 2 / (2 * self.width)


# %% [markdown]
# ## The whole grid

# %%
over = {
    "scale": np.linspace(0.6, 1.4, 25),
    "learning_rate": np.linspace(0.1, 3.0, 40),
    "seed": range(2),
}
many = ds.ensemble(TwoLayers(width=256), over, steps=200, record=[0, 200])
print(dict(many.trace.loss.sizes), "diverged:", int((many.trace.diverged_at >= 0).sum()))

# %% [markdown]
# ## Where does it end?
#
# The map shows the final kernel over the initial kernel: 1 for lazy training, below 1 after a catapult, blank after a
# divergence. For wide networks theory predicts catapults for $2 < \eta\lambda < 4$, with $\lambda = 2 \times$ scale²
# at the start (dashed).

# %%
ratio = many.trace.kernel.isel(step=-1) / many.trace.kernel.isel(step=0)
ratio = ratio.where(many.trace.diverged_at < 0).median("seed")
figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
image = axes.pcolormesh(ratio.learning_rate, ratio.scale, ratio, cmap="viridis", vmin=0, vmax=1)
figure.colorbar(image, label="kernel at the end / at the start")
for level in (2, 4):
    axes.plot(level / (2 * ratio.scale**2), ratio.scale, **THEORY)
axes.text(0.35, 0.75, "lazy")
axes.text(1.5, 0.9, "catapult", color="white", ha="center")
axes.text(2.3, 1.2, "diverges", ha="center")
axes.set(xlabel="learning rate", ylabel="scale of the weights at the start", xlim=(0.1, 3.0))
# %% [markdown]
# ## A single member
#
# Every member keeps its trained model, and can continue.

# %%
one = many.member(scale=1.0, learning_rate=over["learning_rate"][20], seed=0)
print(f"kernel at the end: {float(kernel(one.model)):.2f}; loss: {float(one.trace.loss[-1]):.1e}")

# %% [markdown]
# On a GPU the code stays the same. The page on [ensembles](../ensembles.md) describes batches of members and several
# devices; the page on [catapults](../catapult.md) describes the science.
