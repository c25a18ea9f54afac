# %% [markdown]
# # A PyTorch loop at the edge of stability
#
# You have a training loop in PyTorch and want to know what it does besides making the loss smaller. This tutorial
# adds one object and one line to the loop, and watches the sharpness rise until the learning rate stops it. It needs
# `pip install 'dynascope[torch]'`.

# %%
from textwrap import fill

import torch
from matplotlib import pyplot

import dynascope as ds
from dynascope.figures import THEORY

torch.manual_seed(0)
torch.set_num_threads(1)
digits = ds.tasks.data.datasets.load("digits")
x = torch.tensor(digits.x_train[:500]).float()[:, ::2, ::2].flatten(1)
x = (x - x.mean()) / x.std()
y = torch.nn.functional.one_hot(torch.tensor(digits.y_train[:500]).long(), 10).float()


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(196, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10)
    )


# %% [markdown]
# ## One object, one line
#
# A `Watch` holds the model, the loss, the data on which to measure, and probes by name. The loop stays as it is;
# `watch.record(step)` measures the model as it is then. It changes nothing: mode, gradients, buffers and random
# states are as before, so the training ends in the same bits as without it.

# %%
rate = 0.5
model = make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
probes = {
    "loss": ds.torch.loss(),
    "sharpness": ds.torch.sharpness(),
    "learning_rate": ds.torch.learning_rate(),
    "kernel": ds.torch.kernel_distance(x[:50], every=100),
    "hidden": ds.torch.cka(["1", "3"], every=100),
}
watch = ds.torch.Watch(model, "mse", (x, y), probes, optimizer=optimizer)
for step in range(1201):
    if step % 10 == 0:
        watch.record(step)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
watch.trace

# %% [markdown]
# The trace is an `xarray.Dataset`. Every estimate comes with its error, here relative to the sharpness:

# %%
print(f"largest error of the sharpness: {float((watch.trace.sharpness_error / watch.trace.sharpness).max()):.0e}")
print(f"products with the Hessian at a recording: {float(watch.trace.sharpness_products.mean()):.1f}")

# %% [markdown]
# ## Where the learning rate stops the sharpness
#
# Gradient descent on a quadratic function diverges if the curvature exceeds 2 divided by the learning rate. Here
# the sharpness rises to that line (dashed) and stays about there: the [edge of stability](../edge.md). The loss
# then falls with oscillations.

# %%
trace = watch.trace
figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.semilogy(trace.step, trace.loss)
left.set(xlabel="step", ylabel="loss")
right.plot(trace.step, trace.sharpness)
right.axhline(2 / rate, **THEORY)
right.set(xlabel="step", ylabel="sharpness", ylim=(0, None))

# %% [markdown]
# `ds.lab.findings` reads the curves and states such events in sentences:

# %%
for finding in ds.lab.findings(trace):
    print(fill(finding.text, 100))

# %% [markdown]
# ## The other probes
#
# `plot` draws a panel for each probe, or for those that are named. The hidden layers (`1` and `3` are the names of
# the modules) move away from where they began, and so does the tangent kernel.

# %%
watch.plot(["kernel", "hidden"])

# %% [markdown]
# ## Another learning rate
#
# If the learning rate sets the level, a larger rate must stop the sharpness at a lower value, again 2 divided by the
# rate.

# %%
faster = 0.7
other = make_model()
optimizer = torch.optim.SGD(other.parameters(), lr=faster)
beside = ds.torch.Watch(other, "mse", (x, y), {"sharpness": ds.torch.sharpness()}, optimizer=optimizer)
for step in range(1201):
    if step % 10 == 0:
        beside.record(step)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(other(x), y).backward()
    optimizer.step()

figure, axes = pyplot.subplots(figsize=(5.5, 3.2), layout="constrained")
for watched, eta in ((watch, rate), (beside, faster)):
    axes.plot(watched.trace.step, watched.trace.sharpness * eta, label=f"learning rate {eta}")
    print(f"learning rate {eta}: {float(watched.trace.sharpness[-50:].mean()):.2f}; 2 / learning rate is {2 / eta:.2f}")
axes.axhline(2, **THEORY)
axes.set(xlabel="step", ylabel="sharpness × learning rate", ylim=(0, None))
axes.legend()

# %% [markdown]
# With momentum or preconditioning the line is a different one; `sharpness(preconditioned=True)` measures
# in the geometry of Adam. All probes are on the page on [trainings in PyTorch](../torch.md); `watch.save("digits")`
# puts the trace into the [store](../store.md), where the report and the live page show it. If the training is over
# and its checkpoints are on disk, see [a folder of checkpoints](torch_checkpoints.py).
