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
MOST_ROWS, MOST_MEMBERS = 120, 6


def shipped(run: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The views of a run with fewer rows and members than those that the page draws."""
    views.MOST_ROWS, views.MOST_MEMBERS = MOST_ROWS, MOST_MEMBERS
    found: dict[str, Any] = {}
    for trace in ("measured", "predicted"):
        data = getattr(run, trace)()
        drawn = [] if data is None else views.drawn_variables(data)
        found[trace] = [
            {**view, "times": [float(f"{time:.6g}") for time in view["times"]]}
            for view in drawn
            if view["name"] in names
        ]
    return found


def main() -> None:
    store = Store(Path(sys.argv[1]))
    SHOWCASE.mkdir(exist_ok=True)
    for id, names in SHIPPED.items():
        text = json.dumps(shipped(load(id, preset="quick", seed=0, store=store), names), separators=(",", ":"))
        (SHOWCASE / f"{id}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{id}: {len(text):,} bytes")


if __name__ == "__main__":
    main()
