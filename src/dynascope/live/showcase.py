"""The evidence that ships with the package: the page shows it for an experiment that has no stored run.

Three things ship: a picture of most experiments (the cards of the gallery), the claims of their quick runs as last
judged, and for one experiment of some systems a thinned trace, which moves. In a checkout the first two are read from
`docs/`; a wheel has them beside this file.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dynascope.lab.claims import Claim
from dynascope.live.stored import claim_row

SHOWCASE = Path(str(files("dynascope.live"))) / "showcase"
DOCS = Path(__file__).parents[3] / "docs"


def pictures() -> dict[str, Path]:
    """The pictures that ship, by the name under which the page loads them, such as "edge.product.webp"."""
    folder = _shipped("cards", DOCS / "pictures" / "cards")
    return {path.name: path for path in sorted(folder.glob("*.webp"))} if folder.is_dir() else {}


def moving() -> list[str]:
    """The ids of the experiments whose trace ships."""
    return sorted(path.name.removesuffix(".json") for path in SHOWCASE.glob("*.json") if path.name != "evidence.json")


def views(id: str) -> dict[str, Any]:
    """The views of the trace that ships, as those of a stored run; empty if there is none."""
    if id not in moving():
        return {"measured": [], "predicted": []}
    return json.loads((SHOWCASE / f"{id}.json").read_text(encoding="utf-8"))


def record(id: str, is_usual: bool = True) -> dict[str, Any]:
    """The evidence that ships for an experiment: its claims as rows of the page, its views, and its picture; nothing
    for other settings than the usual one."""
    name = f"{id}.webp"
    if not is_usual:
        return {"claims": [], "picture": "", "measured": [], "predicted": []}
    return {
        "claims": [claim_row(Claim(**claim)) for claim in _claims().get(id, [])],
        "picture": name if name in pictures() else "",
        **views(id),
    }


@cache
def _claims() -> dict[str, Any]:
    path = _shipped("evidence.json", DOCS / "evidence.json")
    return json.loads(path.read_text(encoding="utf-8"))["claims"] if path.is_file() else {}


def _shipped(name: str, source: Path) -> Path:
    packaged = SHOWCASE / name
    return packaged if packaged.exists() else source
