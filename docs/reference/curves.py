"""Examples of the names of `dynascope.curves`, one for each cell."""

import numpy as np
import xarray as xr

import dynascope as ds

times = np.linspace(0, 10, 1001)

# %% orbits
ds.curves.orbits.period(np.tile([0.2, 0.8], 50))

# %% order
ds.curves.order.hierarchy(2)

# %% paths
ds.curves.paths.signed_area([0.0, 0.1, 1.0], [0.0, 0.9, 1.0])

# %% spectra
ds.curves.spectra.effective_rank(np.array([3.0, 3.0, 0.0]))

# %% stages
ds.curves.stages.descents([1.0, 0.2, 0.6, 0.0])

# %% last_cycle
ds.curves.last_cycle(np.tile([0.2, 0.8], 50), 2)

# %% period
orbits = np.stack([np.full(100, 0.5), np.tile([0.2, 0.8], 50)])
ds.curves.period(orbits, burn_in=10)

# %% transverse_exponent
ds.curves.transverse_exponent(np.full(100, 0.5))  # the mean logarithm of how much a distance grows in a step

# %% comparable_pairs
ds.curves.comparable_pairs(ds.curves.hierarchy(2))

# %% cover_pairs
ds.curves.cover_pairs(ds.curves.hierarchy(2))

# %% hierarchy
ds.curves.hierarchy(3)

# %% level_means
nodes = ds.curves.hierarchy(2)
ds.curves.level_means(np.arange(len(nodes), dtype=float), nodes)

# %% share_in_order
nodes = ds.curves.hierarchy(2)
ds.curves.share_in_order(np.arange(len(nodes), dtype=float), ds.curves.cover_pairs(nodes))

# %% violation_share
nodes = ds.curves.hierarchy(2)
ds.curves.violation_share(np.arange(len(nodes), dtype=float), ds.curves.cover_pairs(nodes))

# %% half_times
z = np.stack([1 - np.exp(-times), 1 - np.exp(-times / 2)], axis=-1)
ds.curves.half_times(z, times)

# %% illusion_gap
outputs = np.array([[0.0, 0.0], [0.3, 1.9], [1.0, 2.0]])
ds.curves.illusion_gap(outputs, 1, [0.0, 2.0], [1.0, 2.0])

# %% largest_difference
ds.curves.largest_difference([0.0, 0.2, 1.0], [0.0, 0.9, 1.0])

# %% reversal
ds.curves.reversal([0.0, 0.9, 0.4, 1.0])  # how far back it went

# %% signed_area
ds.curves.signed_area([0.0, 0.1, 1.0], [0.0, 0.9, 1.0])  # positive: the second coordinate goes first

# %% terminal_rate
outputs = 1 - np.exp(-0.7 * times)[:, None]
ds.curves.terminal_rate(outputs, times, np.exp(-1.4 * times))

# %% jumps
stairs = 1 / (1 + np.exp(-20 * (times - 3))) + 1 / (1 + np.exp(-20 * (times - 7)))
[round(float(jump.time), 2) for jump in ds.curves.jumps(stairs, times)]

# %% plateaus
stairs = 1 / (1 + np.exp(-20 * (times - 3))) + 1 / (1 + np.exp(-20 * (times - 7)))
ds.curves.plateaus(stairs, times)[0]

# %% support_size
ds.curves.support_size(np.array([[0.0, 0.5, 0.0], [0.2, 0.5, 0.0]]))

# %% switches
entries = np.stack([np.where(times > 3, 1.0, 0.0), np.where(times > 7, -1.0, 0.0)], axis=-1)
ds.curves.switches(entries, times)

# %% count_above
ds.curves.count_above(np.array([4.0, 2.0, 0.1]), share=0.1)

# %% effective_rank
ds.curves.effective_rank(np.array([1.0, 1.0, 1.0, 0.0]))

# %% energy_rank
ds.curves.energy_rank(np.array([3.0, 1.0, 0.1]), share=0.9)

# %% rise_steps
values = xr.DataArray([[0.0, 0.0], [1.0, 0.0], [1.0, 0.9]], dims=("step", "singular"), coords={"step": [0, 10, 20]})
ds.curves.rise_steps(values).values

# %% stable_rank
ds.curves.stable_rank(np.array([2.0, 1.0]))

# %% Rise
rise = ds.curves.largest_rise([1.0, 0.2, 0.8, 0.0])
print(rise.trough, rise.peak)

# %% first_spike
ds.curves.first_spike([1.0, 0.5, 4.0, 0.2], 2.0, within=3)

# %% largest_rise
ds.curves.largest_rise([1.0, 0.2, 0.8, 0.0])

# %% spikes
ds.curves.spikes([1.0, 0.9, 5.0, 0.8, 0.7], 2.0)

# %% troughs
ds.curves.troughs([3.0, 1.0, 2.0, 0.5], before=2)

# %% descents
ds.curves.descents([[1.0, 0.5, 0.2, 0.0], [1.0, 0.2, 0.6, 0.0]])

# %% first_crossing
found = ds.curves.first_crossing(1 - np.exp(-times), 0.5, times)
print(found.time, found.uncertainty)

# %% memorization_depth
ds.curves.memorization_depth([1.0, 0.2, 0.6, 0.0])

# %% memorization_peak
ds.curves.memorization_peak([1.0, 0.2, 0.6, 0.0])

# %% peak
ds.curves.peak(np.sin(times), times)

# %% rises
ds.curves.rises([1.0, 0.2, 0.6, 0.0])

# %% stage_log
W = np.stack([np.diag([1 / (1 + np.exp(5 - t)), 1 / (1 + np.exp(2 - t))]) for t in times])
ds.curves.stage_log(W, 2, times)[:3]

# %% time_below_peak
ds.curves.time_below_peak(np.exp(-((times - 3) ** 2)), 0.1, times)

# %% turning_points
ds.curves.turning_points([1.0, 0.2, 0.6, 0.0])

# %% correlation
ds.curves.correlation(np.arange(10.0), np.arange(10.0) ** 2)

# %% paired_difference
ds.curves.paired_difference([1.2, 1.1, 1.4], [1.0, 1.0, 1.1])

# %% scaling_exponent
ds.curves.scaling_exponent([10, 100, 1000], np.array([1.0, 0.1, 0.01]))
