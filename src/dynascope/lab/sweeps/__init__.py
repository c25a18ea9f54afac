"""Sweeps: one experiment over a grid of settings and seeds, as one dataset.

The parts of a sweep in order: `plan` checks every run before the first one starts, `gathering` collects the results,
`summary` and `figures` write them, and `work` does all of it.
"""

from dynascope.lab.sweeps.work import Sweep as Sweep, carry_out as carry_out, sweep as sweep
