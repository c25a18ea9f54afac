"""Which room may know of which: this script prints every import that goes against the design.

Data flows task -> model -> dynamics (with probes) -> trace -> judge -> report, and imports follow it: the
science knows nothing of storage, the terminal or HTML; an experiment knows its own contract and nothing else
of the lab.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"

SCIENCE = {"graphs", "tasks", "models", "geometry", "probes", "curves", "dynamics", "lm", "theory"}
CONTRACT = {"lab.experiment", "lab.claims", "lab.criteria"}
MAY_IMPORT = {
    "graphs": {"graphs"},
    "tasks": {"tasks", "graphs"},
    "models": {"models", "graphs"},
    "geometry": {"geometry"},
    "curves": {"curves"},
    "figures": {"figures"},
    "lm": {"lm", "geometry", "tasks"},
    "tasks.task": {"tasks.task"},
    "probes": {"probes", "geometry"},
    "dynamics": {"dynamics", "probes", "geometry", "curves", "tasks.task"},
    "dynamics.watching": {"dynamics", "probes"},
    "dynamics.schema": {"dynamics", "probes"},
    "dynamics.monitor": {"dynamics"},
    "dynamics.trajectory": {"dynamics", "probes", "lab.trajectories"},  # it is saved by the lab, and drawn
    "theory": SCIENCE,
    "torch": {"torch", "probes", "geometry", "dynamics.schema", "dynamics.monitor", "figures", "lab.observations"},
    "experiments": SCIENCE | CONTRACT | {"experiments", "figures"},
    "lab.experiment": CONTRACT,
    "lab.claims": CONTRACT,
    "lab.criteria": CONTRACT,
    "ledger": {"ledger"},
    "lab": SCIENCE | {"lab", "ledger", "experiments", "figures"},
    "lab.trajectories": {"dynamics", "lab", "figures"},
    "lab.observations": {"dynamics", "lab", "figures"},
    "lab.observing": {"dynamics", "probes", "tasks", "torch", "lab"},
    "live": {"live", "lab", "dynamics.watching", "dynamics.schema"},
    "cli": {"lab", "ledger", "cli"},
    "cli.live": {"lab", "live", "cli"},
    "cli.data": {"lab", "tasks", "cli"},
    "checks": set(),
    "compilation": set(),
    "__main__": {"cli"},
    "": SCIENCE | {"lab", "ledger", "experiments", "figures", "torch"},
}
"""For each room the rooms it may import; "" is the package itself, whose own names (the version) are open to
all, as are `checks` and `compilation`."""
FOR_LAB_ONLY = {"rich", "typer", "click", "jinja2"}
FOR_LIVE_ONLY = {"starlette", "anyio", "uvicorn", "plotly"}


def violations(source: Path) -> Iterator[str]:
    """A line for each import that goes against the arrows."""
    package = source / "dynascope"
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(source).with_suffix("").parts
        name = ".".join(module).removesuffix(".__init__")
        here = room(name)
        for line, target in imported(path, module):
            top = target.partition(".")[0]
            where = f"{path.relative_to(source)}:{line}: {here or 'the package'}"
            if top in FOR_LAB_ONLY and here.partition(".")[0] not in ("lab", "cli"):
                yield f"{where} may not import {top}; only lab and cli may"
            if top in FOR_LIVE_ONLY and here not in ("live", "cli.live"):
                yield f"{where} may not import {top}; only live may"
            if top == "dynascope" and not allowed(here, room(target)):
                yield f"{where} may not import {target}"


def allowed(here: str, there: str) -> bool:
    """Whether a module of room `here` may import one of room `there`."""
    rooms = MAY_IMPORT.get(here, set())
    return there in ("", "checks", "compilation", here) or there in rooms or there.partition(".")[0] in rooms


def room(module: str) -> str:
    """The room of a dotted module name: a folder of the package, or a module with arrows of its own."""
    parts = module.split(".")[1:]
    full = ".".join(parts[:2])
    if full in MAY_IMPORT:
        return full
    return parts[0] if parts and parts[0] in MAY_IMPORT else ""


def imported(path: Path, module: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Every module a file imports, with the line: also inside functions, and for type checking only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join((*module[: len(module) - node.level], *([node.module] if node.module else [])))
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def main() -> int:
    """Print the violations; 1 where there are any."""
    found = list(violations(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE))
    print("\n".join(found) if found else "imports follow the arrows")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
