"""What a run gives back: the trace, the trained model, a state to go on from, a file."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds


def same_bits(one, other):
    """Whether all arrays of two states are equal, bit by bit."""
    return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))


# any data: inputs and targets, the first axis counts the examples
x = jax.random.normal(jax.random.key(0), (256, 4))
y = jnp.sin(x[:, 0]) * x[:, 1]
train, test = (x[:192], y[:192]), (x[192:], y[192:])

# any model, any optax optimizer
model = eqx.nn.MLP(4, 1, width_size=32, depth=2, activation=jnp.tanh, key=jax.random.key(1))
task = ds.tasks.Supervised("mse")


def run(steps):
    return ds.descend(
        model,
        task,
        optax.adam(3e-3),
        data=train,
        batch=32,
        key=jax.random.key(2),
        steps=steps,
        record=50,
        probes={
            "train_loss": ds.probes.loss(),
            "test_loss": lambda model: task.loss(model, test),
            "sharpness": ds.probes.sharpness(every=100),
        },
    )


trained = run(steps=1000)
print(trained.trace)  # train_loss(step), test_loss(step), sharpness(sharpness_step) with its error, diverged_at

# the trained network, of the type that was given
network = trained.model
print(type(network).__name__, "predicts", float(network(test[0][0])[0]), "for", float(test[1][0]))

# go on: Adam's moments, the order of the data and the clock go on too
longer = trained.resume(steps=1000)
once = run(steps=2000)
print("resumed, the bits of the uninterrupted run:", same_bits(longer.state, once.state))

# keep it in a file, and take it up again in another session: the same call with steps=0 says what it is
trained.save("mine")
again = ds.load_trajectory("mine", like=run(steps=0)).resume(steps=1000)
print("saved, loaded and resumed, the same bits:", same_bits(again.state, once.state))


# an ensemble: every member keeps its final state
def member(seed, learning_rate):
    start = eqx.nn.MLP(4, 1, width_size=32, depth=2, activation=jnp.tanh, key=jax.random.key(seed))
    return ds.Descent(start, task, optax.adam(learning_rate), data=train, batch=32, key=jax.random.key(seed))


over = {"seed": range(4), "learning_rate": [1e-3, 1e-2]}
many = ds.ensemble(member, over, steps=200, record=50)
print(many.trace.loss.isel(step=-1).mean("seed").values)
best = many.member(seed=3, learning_rate=1e-2)
print("test loss of one member:", float(task.loss(best.model, test)))

whole = ds.ensemble(member, over, steps=400, record=50)
print("resumed ensemble, the same bits:", same_bits(many.resume(steps=200).state, whole.state))

# stop when a condition is met, tested at every recording
stopped = ds.descend(
    model, task, optax.adam(3e-3), data=train, steps=5000, stop=lambda snapshot: snapshot.loss() < 0.05
)
print("stopped at step", int(stopped.trace.stopped_at), "with loss", float(stopped.trace.loss[-1]))


# schedules and averages of the weights go through optax: what a transformation keeps lies in the optimizer's state
def weight_average(decay):
    """An exponential moving average of the weights; the updates are left alone."""

    def update(updates, average, params):
        after = optax.apply_updates(params, updates)
        return updates, optax.incremental_update(after, average, 1 - decay)

    return optax.GradientTransformation(lambda params: params, update)


adam = optax.adam(optax.cosine_decay_schedule(1e-2, 1000))
optimizer = optax.chain(adam, weight_average(0.99))
smooth = ds.descend(model, task, optimizer, data=train, batch=32, key=jax.random.key(3), steps=1000)
average = eqx.combine(smooth.state[0].optimizer[1], model)
print("test loss of the average weights:", float(task.loss(average, test)))
