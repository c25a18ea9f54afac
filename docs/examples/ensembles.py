"""`ensemble`: seeds and settings as named dimensions of one array program."""

import jax
import numpy as np
import optax

import dynascope as ds


class Learner(ds.Member):
    """Fields shape the program; the arguments of the call are numbers it is run with."""

    dim: int
    depth: int

    def __call__(self, seed, learning_rate, mu):
        task = ds.tasks.StructuredIdentity(mu, 0.05, self.dim)
        model = ds.models.MLP(self.dim, self.depth, key=jax.random.key(seed))
        probes = {"test_loss": task.test_loss}
        return ds.Descent(model, task, optax.sgd(learning_rate), probes=probes)


trace = ds.ensemble(
    Learner(dim=2, depth=3),
    {"seed": range(50), "learning_rate": [0.05, 0.1, 4.0]},  # 150 members
    fixed={"mu": np.float32([1.0, 2.0])},  # not varied, but not compiled in either
    steps=1000,
    record=10,
).trace
print(dict(trace.test_loss.sizes))
print("diverged:", (trace.diverged_at >= 0).sum("seed").to_series().to_dict())

twice = ds.curves.stages.descents(trace.test_loss.sel(learning_rate=0.1)) >= 2
print(f"two descents or more: {twice.sum()} of {twice.size} seeds")

# another mu: the compiled program serves again
again = ds.ensemble(
    Learner(dim=2, depth=3),
    {"seed": range(50), "learning_rate": [0.05, 0.1, 4.0]},
    fixed={"mu": np.float32([1.0, 1.5])},
    steps=1000,
    record=10,
).trace
print(f"compiling: {trace.attrs['compile_seconds']:.2f} s, then {again.attrs['compile_seconds']:.2f} s")


# settings that go together share a dimension
def setting(signal, seed):
    mu, sigma = signal
    task = ds.tasks.StructuredIdentity(mu, sigma, 2)
    return ds.Descent(ds.models.MLP(2, 1, key=jax.random.key(seed)), task, optax.sgd(0.1))


mus = np.float32([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
sigmas = np.float32([[0.05, 0.05], [0.05, 0.05], [2.0, 0.05]])
pairs = ds.ensemble(setting, {"signal": (mus, sigmas), "seed": range(4)}, steps=100).trace
assert dict(pairs.loss.sizes) == {"signal": 3, "seed": 4, "step": 101}
