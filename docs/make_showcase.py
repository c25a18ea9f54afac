"""The traces that ship with the live page, thinned: `python docs/make_showcase.py RUNS` takes them from a store.

Each is the quick run at seed 0 of one experiment, in the form in which the page reads a stored run. A card of the
first page moves if its trace ships, and the experiment opens on it while nothing is stored.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dynascope.lab.lookup import load
from dynascope.lab.store import Store
from dynascope.live import views
from dynascope.live.showcase import SHOWCASE

SHIPPED = {
    "concept.signal-order": ("output", "test_loss"),
    "edge.product": ("factors", "lowered"),
    "catapult.single-example": ("loss", "star_kernel"),
    "features.near-zero": ("near_zero/test", "usual/test"),
    "rank.weights": ("product", "loss"),
    "recall.phases": (
        "trained/seen_on_target",
        "trained/seen_on_noise",
        "trained/seen_noise",
        "trained/seen_correct",
    ),
}
"""The experiments, and their variables that ship."""
BEGINNINGS = {"edge.product": 80, "catapult.single-example": 160}
"""Of these only so many steps ship, every one of them: what oscillates or spikes must not be thinned."""
MOST_ROWS, MOST_MEMBERS = 120, 6


def thinned(data: Any, names: tuple[str, ...], steps: int | None) -> list[dict[str, Any]]:
    """The views of some variables of a trace, with fewer rows and members than those that the page draws."""
    views.MOST_ROWS, views.MOST_MEMBERS = steps or MOST_ROWS, MOST_MEMBERS
    drawn = views.drawn_variables(data.isel(step=slice(steps)) if steps and "step" in data.dims else data)
    return [
        {**view, "times": [float(f"{time:.6g}") for time in view["times"]]} for view in drawn if view["name"] in names
    ]


def main() -> None:
    store = Store(Path(sys.argv[1]))
    SHOWCASE.mkdir(exist_ok=True)
    for id, names in SHIPPED.items():
        run = load(id, preset="quick", seed=0, store=store)
        traces = {"measured": run.measured(), "predicted": run.predicted()}
        steps = BEGINNINGS.get(id)
        found = {key: [] if data is None else thinned(data, names, steps) for key, data in traces.items()}
        text = json.dumps(found, separators=(",", ":"))
        (SHOWCASE / f"{id}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{id}: {len(text):,} bytes")


if __name__ == "__main__":
    main()
