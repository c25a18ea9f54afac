"""Examples of the names of `dynascope.lab`, one for each cell."""

import xarray as xr

import dynascope as ds
from dynascope.figures import panels
from dynascope.lab import claims, registry
from dynascope.lab.criteria import above
from dynascope.lab.experiment import Experiment, Source, Values
from dynascope.lab.fields import build
from dynascope.lab.store import Store


class Square(Experiment):
    """Are squares positive?"""

    id = "mine.square"
    source = Source("Arithmetic", "Section 1")
    presets = {"quick": {"numbers": (1.0, 2.0)}}
    control = {"numbers": (0.0,)}

    numbers: Values = (1.0, 2.0, 3.0)

    def measure(self, seed):
        return xr.Dataset({"square": ("number", [number**2 for number in self.numbers])})

    def reduce(self, measured, predicted):
        return measured

    def judge(self, reduced):
        yield above("positive", "Squares are positive", reduced.square, 0.0)

    def draw(self, measured, predicted, reduced):
        figure, axes = panels(1)
        axes.plot(measured.square)
        return {"square": figure}


# %% experiment.Experiment
print(Square.title())
print(Square(numbers=(2.0,)).measure(seed=0).square.values)

# %% experiment.Source
print(Source("Dynamics of Concept Learning", "Figure 2a"))

# %% claims.Claim
claim = claims.claim("positive", "The slope is positive", measured=0.3, expected="> 0", holds=True)
print(claim.id, claim.verdict)

# %% claims.claim
claims.claim("positive", "The slope is positive", measured=-0.3, expected="> 0", holds=False).verdict

# %% claims.erratum
counter = claims.claim("slope", "The slope is 2", measured=2.0, expected=2.0, holds=True)
claims.erratum(counter, kind="misprint", printed="a slope of 3", at="Section 1").verdict

# %% claims.share_of
claims.share_of([True, True, False])

# %% claims.shares_agree
claims.shares_agree(48, 100, 0.5, 100)

# %% claims.wilson_interval
claims.wilson_interval(9, 10)

# %% registry.entries
[entry.id for entry in registry.entries("edge.*")][:3]

# %% registry.match
[entry.id for entry in registry.match(["concept.signal-order"])]

# %% registry.load
registry.load("concept.signal-order").__name__

# %% fields.build
experiment = build(registry.load("concept.signal-order"), {"dim": 16}, preset="quick")
print(experiment.dim, experiment.seeds)

# %% experiment.Values
Square(numbers=(1, 2)).numbers

# %% run.run
from dynascope.lab.run import run

stored = run(build(registry.load("graphs.pairs"), {}, preset="quick"), preset="quick", store=Store("runs"))
stored.verdict

# %% setting.Setting
from dynascope.lab.setting import Setting

setting = Setting.parse("graphs.pairs", preset="quick", control=True, seed=3)
print(setting.kind)
print(setting.command)

# %% execute.execute
from dynascope.lab.execute import execute
from dynascope.lab.setting import Setting

execute(Setting.parse("graphs.pairs", preset="quick"), Store("runs")).verdict

# %% sweeps.sweep
found = ds.lab.sweep("graphs.your-own", {"depth": [1, 2]}, store=Store("runs"))
found.verdict.isel(seed=0).to_pandas()

# %% limit_search.limits
found = ds.lab.limits("graphs.your-own", {"depth": (1, 4)}, points=4, seeds=1, store=Store("runs"))
print("\n".join(found.text))

# %% store.Store
Store("runs").ids()

# %% stored_run.StoredRun
stored = ds.lab.load("graphs.pairs", preset="quick", store=Store("runs"))
print(stored.id, stored.verdict, len(stored.claims), stored.figures)

# %% listing.runs
ds.lab.runs(store=Store("runs"))[["preset", "seed", "holds", "fails"]]

# %% lookup.load
list(ds.lab.load("graphs.pairs", preset="quick", store=Store("runs")).reduced())

# %% showing.show_progress
import jax.numpy as jnp
import optax

with ds.lab.show_progress("descending"):  # a line below the cell, or on a terminal
    end = ds.descend(jnp.ones(2), lambda w: jnp.sum(w**2), optax.sgd(0.1), steps=100).model
print(end)

# %% report.write
from pathlib import Path

from dynascope.lab.report import write

write(Store("runs"), Path("report")).name
