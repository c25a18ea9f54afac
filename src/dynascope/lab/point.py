"""One point of a sweep, as a worker carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr

from dynascope.lab.experiment import Experiment
from dynascope.lab.fields import build
from dynascope.lab.registry import load
from dynascope.lab.run import run
from dynascope.lab.store import Store


def run_point(
    address: str | type[Experiment], changes: Mapping[str, Any], preset: str | None, seed: int, root: str, force: bool
) -> tuple[list[dict[str, Any]], xr.Dataset | None]:
    """Run it without figures and store it: its claims as plain values, and its reduced numbers."""
    kind = load(address) if isinstance(address, str) else address
    stored = run(build(kind, changes, preset), seed=seed, preset=preset, store=Store(root), force=force, draw=False)
    reduced = stored.reduced()
    claims = [claim.model_dump(mode="json") for claim in stored.claims]
    return claims, reduced if isinstance(reduced, xr.Dataset) else None
