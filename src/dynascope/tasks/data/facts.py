"""Files of facts as prompts: the beginning of a sentence and the word that completes it."""

from __future__ import annotations

import csv
import io

from dynascope.tasks.data import catalog, files, packed
from dynascope.tasks.prompts import Prompt


def known_facts() -> list[Prompt]:
    """The facts of `known_1000_facts.csv`: 1,209 sentences that end before a name, and the name (Meng et al. 2022)."""
    return [Prompt(row["prompt"].strip(), f" {row['attribute'].strip()}") for row in _rows("known_1000_facts")]


def capitals() -> list[Prompt]:
    """Cities that are capitals, and their countries: "Madrid is a city in", " Spain"."""
    rows = [row for row in _rows("world_capitals") if row["capital"].strip()]
    return [Prompt(f"{row['capital'].strip()} is a city in", f" {row['country'].strip()}") for row in rows]


def _rows(name: str) -> list[dict[str, str]]:
    (path,) = catalog.find(name)
    files.record(name)
    wanted = {"known_1000_facts": ("prompt", "attribute"), "world_capitals": ("capital", "country")}[name]
    try:
        rows = list(csv.DictReader(io.StringIO(packed.read_bytes(path).decode("utf-8"), newline="")))
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is damaged, or no table ({type(error).__name__})") from None
    if not rows or any(row.get(column) is None for row in rows for column in wanted):
        raise ValueError(f"{path} lacks {' or '.join(wanted)}; a file of facts has these columns")
    return rows
