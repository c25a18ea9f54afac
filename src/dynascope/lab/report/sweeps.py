"""The page of a sweep: its table, a figure for each claim and each reduced number, its files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dynascope.lab import formatting
from dynascope.lab.errors import StoreError, plain
from dynascope.lab.files import checksum
from dynascope.lab.manifest import SweepManifest, check_manifest
from dynascope.lab.run_folders import OLD, SWEEPS, UNFINISHED
from dynascope.lab.sweeps.summary import FORMAT

MOST_ROWS = 200
"""The most points in the table of a page."""
FILES = {
    "sweep.nc": "everything, as labeled arrays",
    "claims.csv": "each claim at each point",
    "numbers.csv": "each number at each point",
    "sweep.json": "the same as JSON",
}


@dataclass(frozen=True)
class SweepFigure:
    """A figure of the sweep, an SVG; its size keeps the page from jumping while it loads."""

    name: str
    title: str
    svg: str
    width: int
    height: int


class SweepPage:
    """The view of one sweep on its page."""

    def __init__(self, path: Path, manifest: Mapping[str, Any], summary: Mapping[str, Any], data: bool = False):
        """`data`: whether the arrays are copied too."""
        self.path, self.manifest, self.summary, self.data = path, manifest, summary, data
        self.id, self.question = str(manifest["id"]), str(manifest["title"])
        self.folder = f"{self.id}/{SWEEPS}/{path.name}"
        self.command = str(manifest["command"])
        self.keys, self.seeds, self.runs = list(manifest["grid"]), int(manifest["seeds"]), int(manifest["runs"])
        self.preset, self.control = manifest["preset"], bool(manifest.get("control"))
        self.gaps = [str(gap["error"]) for gap in summary["gaps"]]
        self.left_out = dict(summary["left_out"])
        self.rows: list[dict[str, Any]] = list(summary["rows"])
        self.claims = list(dict.fromkeys(row["claim"] for row in self.rows))

    @property
    def system(self) -> str:
        return formatting.system(self.id)

    @property
    def name(self) -> str:
        """The sweep in a phrase."""
        seeds = f", {self.seeds} seeds each" if self.seeds > 1 else ""
        control = ", control" if self.control else ""
        return f"Over {' and '.join(map(formatting.label, self.keys))}{seeds}{control}"

    @cached_property
    def figures(self) -> list[SweepFigure]:
        return [
            SweepFigure(one["name"], one["title"], f"figures/{one['name']}.svg", one["width"], one["height"])
            for one in self.manifest["figures"]
        ]

    @cached_property
    def table(self) -> list[tuple[list[str], list[tuple[str, str]]]]:
        """For each of the first points: the values of the keys, and each claim's share with its meaning."""
        points: dict[str, tuple[list[str], dict[str, tuple[str, str]]]] = {}
        for row in self.rows:
            at = [formatting.text(row[key]) for key in self.keys]
            if len(points) == MOST_ROWS and str(at) not in points:
                break
            points.setdefault(str(at), (at, {}))[1][row["claim"]] = _cell(row, self.seeds)
        return [(at, [cells.get(claim, ("", "")) for claim in self.claims]) for at, cells in points.values()]

    @property
    def points(self) -> int:
        return self.runs // self.seeds

    @property
    def files(self) -> list[tuple[str, str]]:
        """The data beside the page, each file with a description."""
        return [(name, text) for name, text in FILES.items() if self.data or not name.endswith(".nc")]


def _cell(row: Mapping[str, Any], seeds: int) -> tuple[str, str]:
    if not row["of"]:
        return "–", "none"
    held = row["share"] == 1
    text = ("holds" if held else "fails") if seeds == 1 else f"{100 * row['share']:.0f} %"
    sign = "holds" if held else "fails" if not row["share"] else "some"
    return text + (f" of {row['of']}" if row["of"] != seeds else ""), sign


def read_sweeps(folder: Path, data: bool = False) -> Iterator[SweepPage | str]:
    """The complete sweeps in an experiment's folder, and a line for each that is damaged or of an earlier version."""
    for path in sorted(folder.glob(f"{SWEEPS}/*/")):
        if path.suffix in (OLD, UNFINISHED):
            continue
        try:
            manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
            if manifest.get("status") != "complete":
                continue
            if manifest.get("format") != FORMAT:
                yield f"{path} was written by an earlier version of dynascope: repeat the sweep; its runs are stored"
                continue
            check_manifest(SweepManifest, manifest)
            if manifest["id"] != folder.name:
                raise StoreError(f"it belongs to {plain(manifest['id'])}")
            for name, sum in manifest["files"].items():
                if checksum(path / name) != sum:
                    raise StoreError(f"{name} is damaged")
            summary = json.loads((path / "sweep.json").read_text(encoding="utf-8"))
            page = SweepPage(path, manifest, summary, data)
            _ = page.table  # so that callers can rely on it
            yield page
        except FileNotFoundError:
            continue  # unfinished, or not a sweep
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StoreError) as error:
            yield f"{path} cannot be shown ({error}): repeat the sweep; its runs are stored"
