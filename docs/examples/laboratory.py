"""The lab from Python: run, read back, sweep, look up, report."""

from pathlib import Path

import dynascope as ds
from dynascope.lab import registry
from dynascope.lab.execute import execute
from dynascope.lab.report import write
from dynascope.lab.run import run
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.sweeps import sweep

Plateau = registry.load(str(Path(__file__).with_name("plateau.py")))  # or an id: registry.load("concept.signal-order")
store = Store("runs")

stored = run(Plateau(seeds=3), store=store)
for claim in stored.claims:
    print(claim.verdict, claim.id, claim.measured)
print("in", stored.folder, "with", sorted(stored.manifest["files"]))
assert run(Plateau(seeds=3), store=store).reused  # the same configuration and code: nothing is run again

# what was measured, predicted and reduced, as labeled arrays
measured, predicted, reduced = stored.measured(), stored.predicted(), stored.reduced()
assert predicted is not None
print("largest distance from theory:", abs(measured.w - predicted.w).max().item())
print("half-times:", reduced.half_time.mean("number").values)

# a setting, in the words of `dynascope run`: what it is, the command for it, and the run
setting = Setting.parse(Plateau, control=True, changes={"seeds": 3})
print(setting.kind, "by", setting.command)
control = execute(setting, store)
assert control.claims[0].verdict == "fails"

# a grid; `executor` takes anything with the interface of concurrent.futures
found = sweep(Plateau, {"spread": [0.0, 0.3]}, base={"seeds": 3}, seeds=2, store=store)
print(found.verdict.isel(claim=0).to_series())  # holds, fails, erratum, or gap
print(found.half_time.mean(["seed", "number"]))  # what the experiment reduces, over the grid

# where a claim stops being true: points are placed where its verdict changes
found = ds.lab.limits(Plateau, {"spread": (0.0, 2.0)}, base={"seeds": 3}, points=9, seeds=1, store=store)
print("\n".join(found.text))  # the answer in sentences
print(found.estimate.values)  # the limits; holds_at and fails_at are the neighbors on either side

# what is stored, as a table; and a run without knowing its digest
print(ds.lab.runs(store=store)[["digest", "seed", "holds", "fails", "bytes"]])
assert ds.lab.load(Plateau, seeds=3, store=store).digest == stored.digest

print("report:", write(store, Path("report")))
