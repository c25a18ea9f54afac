"""The share of random starts that show transient memorization, by the network's shape: dimension, depth, hidden
width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.experiments.concept import transients
from dynascope.experiments.concept.sim_experiment import Signals, SimExperiment
from dynascope.experiments.concept.transients import ReferenceShare
from dynascope.figures import INK, PALETTE, panels
from dynascope.lab.criteria import About, below, falling, rising, same_shares
from dynascope.lab.experiment import Claims


class Shape(NamedTuple):
    dim: int
    depth: int
    width: int

    def __str__(self) -> str:
        return f"d={self.dim} L={self.depth} h={self.width}"


SHARES = {
    **{Shape(d, 4, d): ReferenceShare(p, 400) for d, p in ((2, 0.51), (3, 0.39), (4, 0.33))},
    **{Shape(d, 4, d): ReferenceShare(p, n) for d, p, n in ((8, 0.17, 200), (16, 0.04, 100), (64, 0.0, 20))},
    **{Shape(3, L, 3): ReferenceShare(p, 200) for L, p in ((1, 0.01), (2, 0.15), (3, 0.34), (5, 0.45))},
    **{Shape(2, L, 2): ReferenceShare(p, 200) for L, p in ((1, 0.02), (2, 0.23), (3, 0.41))},
    Shape(2, 4, 64): ReferenceShare(0.04, 100),
}
"""Shares with two descents or more, population gradient, recorded every fifth step, by an independent program."""

Outcomes = Mapping[Shape, np.ndarray]
"""For every shape, whether each start memorizes, in no particular order."""


class Families(NamedTuple):
    """The shapes in which each property is varied alone."""

    by_dim: Sequence[Shape]
    by_depth: Mapping[int, Sequence[Shape]]
    wide: Shape | None

    def all(self) -> list[Shape]:
        shapes = [*self.by_dim, *(shape for family in self.by_depth.values() for shape in family)]
        return list(dict.fromkeys([*shapes, self.wide] if self.wide else shapes))


def measure_shares(
    experiment: SimExperiment, signals: Signals, shapes: Sequence[Shape], starts: int, seed: int
) -> xr.Dataset:
    """The number of starts of each shape that memorize, by their test loss at every step and at every fifth; of
    `starts`, half of them from a width of 8 and an eighth from 64."""
    found = []
    for shape in shapes:
        widest = max(shape.dim, shape.width)
        count = max(1, starts // (1 if widest < 8 else 2 if widest < 64 else 8))
        trace = experiment.train(signals, seed, record=1, samples=None, seeds=count, **shape._asdict())
        loss = trace.test_loss.isel(signal=0).transpose("seed", "step").values
        found.append((transients.memorizes(loss).sum(), transients.memorizes(loss[:, ::5]).sum(), count))
    every, fifth, trials = np.array(found).T
    sizes = (("case", "size"), np.array(shapes))
    return xr.Dataset(
        {"every_step": ("case", every), "every_fifth": ("case", fifth), "trials": ("case", trials), "sizes": sizes}
    )


def outcomes(table: xr.Dataset, when: str) -> Outcomes:
    """The table of `measure_shares`, at every step or every fifth, as outcomes."""
    rows = zip(table["sizes"].values, table[when].values, table.trials.values, strict=True)
    return {Shape(*map(int, shape)): np.arange(trials) < count for shape, count, trials in rows}


def judge_shares(table: xr.Dataset, families: Families, as_reference: bool) -> Claims:
    found, starts = outcomes(table, "every_step"), int(table.trials.max())

    def shares(shapes: Sequence[Shape], field: str) -> xr.DataArray:
        values = [found[shape].mean() for shape in shapes]
        return xr.DataArray(values, {field: [getattr(shape, field) for shape in shapes]})

    statement = "The share of starts with two descents or more falls with the dimension"
    by_dim = shares(families.by_dim, "dim")
    yield falling("falls-with-dimension", statement, by_dim, source="Figure 2c", seeds=starts)
    for dim, shapes in families.by_depth.items():
        by_depth, about = shares(shapes, "depth"), About(source="Figure 3", seeds=starts)
        yield rising(f"rises-with-depth-{dim}", f"At d={dim} the share rises with depth", by_depth, **about)
        if shapes[0].depth == 1:
            statement = f"At d={dim} nearly no start of one layer has two descents"
            yield below(f"rare-in-one-layer-{dim}", statement, by_depth[0], 0.1, **about)
    if families.wide:
        narrow, wide = (
            found[shape].mean() for shape in (families.wide._replace(width=families.wide.dim), families.wide)
        )
        statement = f"At d={families.wide.dim} hidden layers of width {families.wide.width} make it rare: the share, "
        statement += "over that of narrow layers"
        seeds = found[families.wide].size
        yield below("width-removes", statement, wide / narrow, 0.25, source="Figure 2c", seeds=seeds)
    if as_reference:
        statement = "By dimension, width and depth the shares are those of an independent program (other seeds, the "
        statement += "same recording at every fifth step)"
        coarse = {str(shape): outcome for shape, outcome in outcomes(table, "every_fifth").items()}
        known = {str(shape): share for shape, share in SHARES.items() if str(shape) in coarse}
        yield same_shares("shares", statement, coarse, known, seeds=starts)


def draw_families(table: xr.Dataset, families: Families, as_reference: bool) -> Figure:
    found = outcomes(table, "every_step")
    figure, (by_dim, by_depth) = panels(2)
    depth = families.by_dim[0].depth
    lines = [(by_dim, "dim", families.by_dim, f"{depth} layers, h = d", INK)]
    for color, (dim, shapes) in zip(PALETTE[1:], families.by_depth.items(), strict=False):
        lines.append((by_depth, "depth", shapes, f"d = h = {dim}", color))
    if families.wide:
        label = f"{depth} layers, h = {families.wide.width}"
        lines.append((by_dim, "dim", [families.wide], label, PALETTE[1]))
    for axes, field, shapes, label, color in lines:
        transients.draw_shares(axes, [getattr(s, field) for s in shapes], [found[s] for s in shapes], color, label)
        known = [shape for shape in shapes if as_reference and shape in SHARES]
        transients.draw_reference(axes, [getattr(s, field) for s in known], [SHARES[s].share for s in known])
    for axes in (by_dim, by_depth):
        axes.set(ylim=(-0.02, 0.8), ylabel="share with two descents or more")
    by_dim.set_xscale("log", base=2)
    dims = [shape.dim for shape in families.by_dim]
    by_dim.set_xticks(dims, [str(dim) for dim in dims])
    by_dim.set(xlabel="dimension d", title="Rarer in higher dimension")
    by_depth.set(xlabel="layers", title="More frequent in deeper networks")
    by_depth.xaxis.get_major_locator().set_params(integer=True)
    by_dim.legend(loc="upper right")
    by_depth.legend(loc="upper left")
    return figure
