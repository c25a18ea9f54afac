"""Where a run comes from: its code, the packages, the device, and the command that makes it again."""

from __future__ import annotations

import ast
import json
import platform
import shlex
from importlib.metadata import PackageNotFoundError, version

from dynascope.lab.experiment import Experiment
from dynascope.lab.files import checksum
from dynascope.lab.registry import entry_of, parse

PACKAGES = (
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "diffrax",
    "numpy",
    "scipy",
    "xarray",
    "h5netcdf",
    "matplotlib",
)
AFTERWARDS = ("predict", "judge", "draw")


def fingerprint(experiment: type[Experiment]) -> dict[str, str]:
    """Checksums of the experiment's file: of all of it, and of all but what happens after the measurement.

    A stored run is returned again only while the file is the same; a measurement serves again while the part
    of the file that could have shaped it is, so one may work on a claim or a figure without measuring anew.
    """
    entry = entry_of(experiment)
    if entry is None:
        return {"file": "", "measure": ""}
    text = entry.path.read_text(encoding="utf-8")
    tree = parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if getattr(part, "name", None) not in AFTERWARDS]
    return {"file": checksum(text.encode()), "measure": checksum(ast.dump(tree).encode())}


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "?"
    return found


def device_name() -> str:
    """The device that JAX computes on, in words."""
    import jax

    device = jax.devices()[0]
    if device.platform == "cpu":
        return f"cpu ({platform.machine()}, {platform.system()})"
    return f"{device.platform} ({device.device_kind})"


def command_of(experiment: Experiment, preset: str | None, seed: int) -> str:
    """The command that makes this very run: the preset, and each field that differs from it."""
    kind = type(experiment)
    entry = entry_of(kind)
    own = f"{entry.path.name}::{kind.id}" if entry and not entry.module else kind.id
    words = ["dynascope", "run", own]
    if preset:
        words += ["--preset", preset]
    plain = kind(**kind.presets.get(preset or "", {})).model_dump(mode="json")
    for name, value in experiment.model_dump(mode="json").items():
        if value != plain[name]:
            words += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    if seed:
        words += ["--seed", str(seed)]
    return shlex.join(words)
