"""Sweeps: one experiment over a grid of settings and seeds, as one dataset.

In the order in which a sweep goes through them: `plan` checks every run before the first one starts, `points` carries
runs out, `gathering` puts the results in their places, `summary` and `figures` keep them, and `work` is the whole.
"""

from dynascope.lab.sweeps.work import Sweep as Sweep, carry_out as carry_out, sweep as sweep
