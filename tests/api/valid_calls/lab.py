"""Valid calls of the lab, on stores that are removed at the end."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

import dynascope as ds
from dynascope.lab import registry
from dynascope.lab.run import run
from dynascope.lab.store import Store
from valid_calls.shared import Calls

TOYS = Path(__file__).resolve().parents[2] / "lab"
_FOLDER = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def calls() -> Calls:
    store = Store(Path(_FOLDER.name))
    walk, disk = registry.load(f"{TOYS / 'toy.py'}::toy.walk"), registry.load(f"{TOYS / 'bounded.py'}::toy.disk")
    run(walk(steps=20), store=store, draw=False)
    trace = xr.Dataset({"loss": ("step", 0.5 ** np.arange(9)), "diverged_at": -1}, {"step": np.arange(9)})
    few = {"store": store, "seeds": 1}
    search = {"points": 4, "resolution": 0.3}
    none = "foo"  # an experiment that is not there
    nothing = {"kind": none, "base": "{}", "executor": "None", "on_progress": "None", "store": "foo"}
    return {
        "findings": ({"trace": trace}, {}),
        "limits": ({"kind": disk, "over": {"x": (0, 1)}, **few, **search}, nothing),
        "load": ({"name": walk, "store": store}, {"name": none, "seed": "0", "store": "foo"}),
        "runs": ({"store": store}, {"pattern": none, "store": "foo"}),
        "save_observation": (
            {"trace": trace, "name": "toy", "store": store},
            {"name": "foo", "learning_rate": "2.5 2**62", "settings": "{}", "device": "foo", "command": "foo"}
            | {"store": "foo"},
        ),
        "show_progress": ({}, {"name": "foo"}),
        "sweep": ({"kind": walk, "grid": {"steps": [20]}, **few}, nothing),
    }


for _name in ds.lab.__all__:  # they are loaded when first used
    getattr(ds.lab, _name)
