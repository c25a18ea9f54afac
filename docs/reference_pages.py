"""The reference as pages of the site: every public name with its signature, its shapes, its docstring and an example.

mkdocstrings reads signatures and docstrings from the source. An example is a cell of `reference/<room>.py` that has the
name as its title; it is run when the site is built, and shown with what it prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import make_reference as listing
import notebooks

EXAMPLES = Path(__file__).with_name("reference")


def examples(room: str) -> Iterator[notebooks.Outcome]:
    """Run the examples of a room, in the current folder. Each sees the names of the first cell and of no other."""
    script = EXAMPLES / f"{room}.py"
    if not script.is_file():
        return
    first, *rest = notebooks.cells(script.read_text(encoding="utf-8"))
    common: dict[str, Any] = {"__name__": "__main__"}
    notebooks.run(first, common, script.name)
    for cell in rest:
        yield notebooks.Outcome(cell) if missing(cell) else notebooks.run(cell, dict(common), script.name)


def missing(cell: notebooks.Cell) -> list[str]:
    """The packages that a cell imports and that are not installed: it is shown, and not run."""
    packages = re.findall(r"^(?:from|import) (\w+)", cell.source, re.MULTILINE)
    return [name for name in dict.fromkeys(packages) if find_spec(name) is None]


def preamble(room: str) -> str:
    """The code that the examples of a room have in common, without the docstring of the file."""
    first = notebooks.cells((EXAMPLES / f"{room}.py").read_text(encoding="utf-8"))[0]
    return re.sub(r'^""".*?"""\s*', "", first.source, flags=re.DOTALL)


@cache
def names(room: str) -> dict[str, str]:
    """The public names of a room, and where each of them is defined."""
    if room == "lab":
        modules = listing.LAB.items()
        return {
            f"{listing.public(module)}.{name}": f"dynascope.lab.{module.removesuffix('.__init__')}.{name}"
            for module, found in modules
            for name in found
        }
    return {name: path for name, _, path in listing.exported(f"dynascope.{room}")}


def pages(outcomes: Mapping[str, list[notebooks.Outcome]]) -> dict[str, str | bytes]:
    """Pages and their pictures by file name: a page for each room, and one for the theory of each system."""
    found: dict[str, str | bytes] = {}
    for room in (*listing.ROOMS, "lab"):
        summary = listing.summary(listing.SOURCE / "dynascope" / room / "__init__.py")
        shown = {outcome.cell.title: outcome for outcome in outcomes.get(room, ())}
        parts = [f"# {room}", summary]
        if shown:
            parts.append(f"The examples on this page begin with:\n\n```python\n{preamble(room)}\n```")
        for name, path in names(room).items():
            parts.append(f"::: {path}")
            if name in shown:
                text, pictures = notebooks.page([shown[name]], f"{room}-{name}")
                needs = "".join(f" (needs {package})" for package in missing(shown[name].cell))
                parts.append(f"**Example**{needs}\n\n{text.strip()}")
                found |= pictures
        found[f"{room}.md"] = "\n\n".join(parts) + "\n"
    for system in listing.SYSTEMS:
        folder = listing.SOURCE / "dynascope" / "theory" / system
        parts = [f"# theory.{system}", listing.summary(folder / "__init__.py")]
        for file in sorted(folder.glob("[a-z]*.py")):
            parts.append(f"::: dynascope.theory.{system}.{file.stem}\n    options:\n      heading_level: 2")
        found[f"theory-{system}.md"] = "\n\n".join(parts) + "\n"
    return found


def linked(page: str) -> str:
    """The list of all names, with a link from each to its place on these pages."""
    lines, room, module = [], "", ""
    for line in page.splitlines():
        if heading := re.match(r"## (.*)", line):
            room = heading[1]
            lines.append(f"## [{room}](reference/{room.replace('theory.', 'theory-')}.md)")
            continue
        if heading := re.match(r"\*\*(\w+)\*\*\.", line):
            module = heading[1]
        if entry := re.match(r"- `([\w.]+)`(: .*)", line):
            if room.startswith("theory."):
                path, target = f"dynascope.{room}.{module}.{entry[1]}", room.replace("theory.", "theory-")
            else:
                path, target = names(room)[entry[1]], room
            line = f"- [`{entry[1]}`](reference/{target}.md#{path}){entry[2]}"
        lines.append(line)
    return "\n".join(lines) + "\n"
