# %% [markdown]
# # A first run
#
# An experiment asks one question about how networks learn. This tutorial runs one, reads its claims, runs its
# control, and opens the numbers behind them.
#
# What does the experiment ask, and what can be varied?

# %%
# !dynascope show concept.signal-order

# %% [markdown]
# ## Run it
#
# `--preset quick` is a smaller setting with the same phenomenon. The command measures, computes the prediction, judges
# and plots, and stores everything in the folder `runs`.

# %%
# !dynascope run concept.signal-order --preset quick

# %% [markdown]
# Each line is a **claim**: a sentence that the measurement could have refuted, with the number measured and the number
# expected.
#
# ## Could it have failed?
#
# Every experiment has a **control**, a setting without the phenomenon, in which the first claim must fail.

# %%
# !dynascope run concept.signal-order --preset quick --control

# %% [markdown]
# ## What was measured
#
# A stored run opens in Python as labeled arrays.

# %%
import numpy as np
from matplotlib import pyplot

import dynascope as ds
from dynascope.figures import PALETTE, THEORY

run = ds.lab.load("concept.signal-order", preset="quick")
measured, predicted = run.measured(), run.predicted()
measured

# %% [markdown]
# The network learns f(x) = x on two clusters, one on each axis. The test point is their sum: a combination that the
# network has never seen. The path of its output in the plane of the two concepts shows which one it learns first. The
# dashed line is theory, computed from the initial weights alone.

# %%
figure, axes = pyplot.subplots(figsize=(5, 4))
for signal, color in zip((0, -1), PALETTE, strict=False):
    one, theory = (found.output.isel(signal=signal, seed=0) for found in (measured, predicted))
    target = measured.mu.isel(signal=signal)
    label = f"signals {target[0]:g} and {target[1]:g}"
    axes.plot(*np.asarray(one / target).T, color=color, label=label)
    axes.plot(*np.asarray(theory / target).T, **THEORY)
axes.plot([0, 1], [0, 1], color="lightgray", zorder=0)
axes.set(xlabel="first concept", ylabel="second concept", title="The stronger concept is learned first")
axes.legend()

# %% [markdown]
# ## Next
#
# ```sh
# dynascope run concept.signal-order --preset quick --set depth=2     # change a field
# dynascope list 'edge.*'                                             # other experiments
# dynascope report --open                                             # all stored runs as a site
# ```
#
# [The first page](../index.md#words) explains the words, [claims and store](../claims-and-store.md) explains the
# files of a run, and [for a skeptical referee](../referee.md) explains the verdicts.
