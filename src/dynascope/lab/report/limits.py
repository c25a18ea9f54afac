"""The page of a search for limits: the answer in sentences, its figure, its points, its files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from dynascope.lab import formatting
from dynascope.lab.errors import StoreError, plain
from dynascope.lab.files import checksum
from dynascope.lab.limit_search.summary import FORMAT
from dynascope.lab.manifest import LimitsManifest, check_manifest
from dynascope.lab.report.sweeps import SweepFigure
from dynascope.lab.run_folders import LIMITS, OLD, UNFINISHED

MOST_ROWS = 200
"""The most points in the table of a page."""
FILES = {
    "limits.nc": "everything, as labeled arrays",
    "points.csv": "every point",
    "limits.json": "the same as JSON, with the answer",
}
OWN = ("verdict", "margin", "share", "low", "high", "seeds")
"""The columns of a point besides the fields."""


class LimitsPage:
    """One search as its page shows it."""

    def __init__(self, path: Path, manifest: Mapping[str, Any], summary: Mapping[str, Any], data: bool = False):
        """`data`: whether the arrays are copied too."""
        self.path, self.data = path, data
        self.id, self.question, self.claim = str(manifest["id"]), str(manifest["title"]), str(manifest["claim"])
        self.folder, self.command = f"{self.id}/{LIMITS}/{path.name}", str(manifest["command"])
        self.preset, self.control, self.runs = manifest["preset"], bool(manifest["control"]), int(manifest["runs"])
        self.over = [str(span).partition("=")[0] for span in manifest["over"]]
        self.answer = [str(line) for line in summary["answer"]]
        self.gaps = [str(line) for line in summary["gaps"]]
        self.rows: list[dict[str, Any]] = list(summary["points"])
        self.figures = [
            SweepFigure(one["name"], one["title"], f"figures/{one['name']}.svg", one["width"], one["height"])
            for one in manifest["figures"]
        ]

    @property
    def system(self) -> str:
        return formatting.system(self.id)

    @property
    def name(self) -> str:
        """The search in a phrase."""
        return f"Limits of {self.claim} over {' and '.join(map(formatting.label, self.over))}"

    @cached_property
    def table(self) -> list[tuple[list[str], str, list[str]]]:
        """For each of the first points: the values of the fields, the verdict, and margin, share and seeds."""
        return [
            (
                [formatting.text(value) for key, value in row.items() if key not in OWN],
                str(row["verdict"]),
                ["–" if row[key] is None else formatting.text(row[key]) for key in ("margin", "share", "seeds")],
            )
            for row in self.rows[:MOST_ROWS]
        ]

    @property
    def files(self) -> list[tuple[str, str]]:
        """The data beside the page, each file with a description."""
        return [(name, text) for name, text in FILES.items() if self.data or not name.endswith(".nc")]


def read_limits(folder: Path, data: bool = False) -> Iterator[LimitsPage | str]:
    """The complete searches in an experiment's folder, and a line for each that is damaged or of another version."""
    for path in sorted(folder.glob(f"{LIMITS}/*/")):
        if path.suffix in (OLD, UNFINISHED):
            continue
        try:
            manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
            if manifest.get("format") != FORMAT:
                yield f"{path} was written by another version of dynascope: repeat the search; its runs are stored"
                continue
            check_manifest(LimitsManifest, manifest)
            if manifest["id"] != folder.name:
                raise StoreError(f"it belongs to {plain(manifest['id'])}")
            for name, known in manifest["files"].items():
                if checksum(path / name) != known:
                    raise StoreError(f"{name} is damaged")
            page = LimitsPage(path, manifest, json.loads((path / "limits.json").read_text(encoding="utf-8")), data)
            _ = page.table  # so that whoever shows it can rely on it
            yield page
        except FileNotFoundError:
            continue  # unfinished, or not ours
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StoreError) as error:
            yield f"{path} cannot be shown ({error}): repeat the search; its runs are stored"
