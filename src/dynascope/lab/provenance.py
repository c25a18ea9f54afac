"""What a manifest says of a run's origin: versions, the device, the command that repeats it."""

from __future__ import annotations

import platform
import shlex
import sys
from importlib.metadata import version

from dynascope.lab.experiment import Experiment
from dynascope.lab.registry import entry_of
from dynascope.lab.terminal import typed

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scipy", "xarray", "h5netcdf", "matplotlib")
OPTIONAL = ("torch", "transformers")


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers depend on; of optional ones, those that are in use."""
    used = [name for name in OPTIONAL if name in sys.modules]
    return {"python": platform.python_version(), **{name: version(name) for name in (*PACKAGES, *used)}}


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
