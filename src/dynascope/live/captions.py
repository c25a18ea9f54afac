"""The captions of an experiment's panels: which come first, their titles, and what to look for in them.

`captions.toml` has this for the variables that many experiments record, and for single experiments. A panel without
a caption has the name of its variable as its title.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

KEYS = ("main", "legend", "scene")


def captions(id: str) -> dict[str, Any]:
    """The captions of an experiment.

    Args:
        id: Its id, such as "concept.signal-order".

    Returns:
        `main`, the variables whose panels come first (empty: the first two); `legend`, a template of the names of its
        settings; `scene`, the drawing beside the panels; and `panels`, for each variable its `title`, a
        sentence of what to `look` for, and perhaps the names of its `axes`.
    """
    table = _table()
    own = table.get(id, {})
    panels = table["variables"] | {name: text for name, text in own.items() if name not in KEYS}
    return {
        "main": own.get("main", []),
        "legend": own.get("legend", ""),
        "scene": own.get("scene", ""),
        "panels": {name: dict(zip(("title", "look", "axes"), text, strict=False)) for name, text in panels.items()},
    }


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("dynascope.live") / "captions.toml").read_text(encoding="utf-8"))
