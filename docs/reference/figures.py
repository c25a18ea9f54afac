"""Examples of the names of `dynascope.figures`, one for each cell."""

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from matplotlib import pyplot

import dynascope as ds
from dynascope import figures

probes = {"loss": ds.probes.loss(), "weights": lambda w: w}
trace = ds.descend(jnp.ones(3), lambda w: jnp.sum(w**2), optax.sgd(0.1), steps=40, probes=probes).trace

# %% concept_plane
figure, axes = pyplot.subplots(figsize=(3, 2.5))
figures.concept_plane(axes, (1.0, 2.0))

# %% legend_beside
figure, axes = pyplot.subplots(figsize=(4, 2.5))
axes.plot([0, 1], label="measured")
figures.legend_beside(axes)

# %% panels
figure, (left, right) = figures.panels(2)
figure.get_size_inches()

# %% phase_map
phases = xr.DataArray([[[0, 0], [0, 1]], [[0, 1], [1, 1]]], dims=("rate", "width", "seed"))
phases = phases.assign_coords(rate=[0.1, 1.0], width=[10, 20])
figure, axes = pyplot.subplots(figsize=(3, 2.5))
shares = figures.phase_shares(phases, ("converges", "diverges"))
figures.phase_map(axes, shares, figures.PALETTE[:2], x="rate", y="width", log="x")

# %% phase_shares
phases = xr.DataArray([[[0, 0], [0, 1]]], dims=("rate", "width", "seed"))
figures.phase_shares(phases, ("converges", "diverges")).sel(phase="diverges")

# %% plot_trace
figures.plot_trace(trace)

# %% sparkline
figures.sparkline(trace.loss.values)[:60]

# %% settings_colors
len(figures.settings_colors(3))

# %% FAINT
figures.FAINT

# %% HOUSE_STYLE
with pyplot.rc_context(figures.HOUSE_STYLE):
    pyplot.figure(figsize=(3, 2)).subplots().plot([0, 1])

# %% INK
figures.INK

# %% PALETTE
figures.PALETTE

# %% THEORY
times = np.linspace(0, 3)
pyplot.figure(figsize=(3, 2)).subplots().plot(times, np.exp(-times), **figures.THEORY)
