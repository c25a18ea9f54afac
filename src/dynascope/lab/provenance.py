"""Which code a run depends on: checksums of an experiment's file and of every module of dynascope that it imports,
directly or through others.

A stored run is reused only while that code is the same, so that no verdict outlives the code that reached it. Comments
and layout do not count. The lab itself does not count either: it carries experiments out and shapes no number.
"""

from __future__ import annotations

import ast
import platform
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from dynascope.lab.experiment import Experiment
from dynascope.lab.files import checksum
from dynascope.lab.registry import entry_of, parse
from dynascope.lab.terminal import typed

PACKAGE = Path(__file__).resolve().parent.parent
ROOMS = ("tasks", "models", "geometry", "probes", "curves", "dynamics", "theory", "figures")
AFTERWARDS = ("predict", "judge", "draw")


def fingerprint(experiment: type[Experiment]) -> dict[str, str]:
    """`all`: the code of the whole run. `measure`: the same without the experiment's own predict, judge and draw, and
    without drawing code (the package `figures`, and modules called `*_drawing`).

    While `measure` stays the same, a stored measurement is used again: one may work on a claim or a figure without
    measuring again. Both are empty for an experiment that is not in a file (a notebook, a shell).
    """
    file = getattr(sys.modules.get(experiment.__module__), "__file__", None)
    if file is None:
        return {"all": "", "measure": ""}
    here = Path(file).resolve()
    tree = parse(here.read_text(encoding="utf-8"))
    whole = ast.dump(tree) + _others(here, drawing=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if getattr(part, "name", None) not in AFTERWARDS]
    return {"all": checksum(whole.encode()), "measure": checksum((ast.dump(tree) + _others(here, False)).encode())}


def _others(here: Path, drawing: bool) -> str:
    """Checksums of all files that `here` leads to, with or without those that draw."""
    reached, waiting = {here}, [here]
    while waiting:
        found = {path for path in _leads_to(waiting.pop()) if drawing or not _draws(path)}
        waiting += found - reached
        reached |= found
    return "".join(_code(path, _age(path)) for path in sorted(reached - {here}))


def _draws(path: Path) -> bool:
    return path.stem.endswith("_drawing") or path.parent == PACKAGE / "figures"


def _leads_to(path: Path) -> Iterator[Path]:
    """The files of dynascope that a file imports. The bare package counts as all of its rooms."""
    for name in _imports(path, _age(path)):
        parts = name.split(".")[1:]
        if parts[:1] == ["lab"]:
            continue
        target = PACKAGE.joinpath(*parts)
        if parts and target.with_suffix(".py").is_file():
            yield target.with_suffix(".py")
        elif parts and (target / "__init__.py").is_file():
            yield target / "__init__.py"
        elif not parts:
            yield from (file for room in ROOMS for file in (PACKAGE / room).rglob("*.py"))


@cache
def _imports(path: Path, age: int) -> tuple[str, ...]:
    """The dotted names under `dynascope` that a file imports, absolutely or relatively."""
    found: set[str] = set()
    package = ("dynascope", *path.relative_to(PACKAGE).parts[:-1]) if path.is_relative_to(PACKAGE) else ()
    for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            below = {f"{base}.{alias.name}" for alias in node.names}
            found |= below if base == "dynascope" else below | {base}
    return tuple(sorted(name for name in found if name.partition(".")[0] == "dynascope"))


@cache
def _code(path: Path, age: int) -> str:
    return checksum(ast.dump(parse(path.read_text(encoding="utf-8"))).encode())


def _age(path: Path) -> int:
    """What changes when the file does: the key under which things read from it are remembered."""
    return path.stat().st_mtime_ns


PACKAGES = ("jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scipy", "xarray", "h5netcdf", "matplotlib")


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def device_name() -> str:
    """The device that JAX computes on, in words."""
    import jax

    device = jax.devices()[0]
    if device.platform == "cpu":
        return f"cpu ({platform.machine()}, {platform.system()})"
    return f"{device.platform} ({device.device_kind})"


def command_of(experiment: Experiment, preset: str | None, seed: int) -> str:
    """The command that repeats this run: the preset, and each field that differs from it."""
    kind = type(experiment)
    entry = entry_of(kind)
    own = f"{entry.path.name}::{kind.id}" if entry and not entry.module else kind.id
    words = ["dynascope", "run", own]
    if preset:
        words += ["--preset", preset]
    plain = kind(**kind.presets.get(preset or "", {})).model_dump(mode="json")
    for name, value in experiment.model_dump(mode="json").items():
        if value != plain[name]:
            words += ["--set", f"{name}={typed(value)}"]
    if seed:
        words += ["--seed", str(seed)]
    return shlex.join(words)
