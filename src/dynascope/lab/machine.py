"""The machine that a run uses: the device, the versions, and JAX's settings, which apply only inside a run."""

from __future__ import annotations

import ctypes
import glob
import platform
import re
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from dynascope.tasks.data.files import cache_folder


@contextmanager
def precision(double: bool, matmul: str) -> Iterator[None]:
    """64-bit numbers or 32-bit ones, and how exactly matrices are multiplied."""
    with jax.enable_x64(double), jax.default_matmul_precision(matmul):
        yield


MANY_MAPS = 10_000
"""The number of memory maps from which compiled programs are dropped, when they take about 3 GB. Linux allows a process
65,530 maps by default, and each compiled program holds several."""


def make_room() -> None:
    """Drop compiled programs if the process holds very many: they take memory, and XLA crashes when no maps are left.

    Programs that are needed again come from the compilation cache. Does nothing on systems without /proc, and checks at
    most once a second: little can be compiled in that time.
    """
    global _looked
    if time.monotonic() < _looked + 1:
        return
    _looked = time.monotonic()
    try:
        maps = Path("/proc/self/maps").read_bytes()
    except OSError:
        return
    if maps.count(b"\n") > MANY_MAPS:
        jax.clear_caches()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # glibc keeps gigabytes of freed small pieces unless trimmed
            trim(0)


_looked = -1.0


@contextmanager
def compilation_cache() -> Iterator[None]:
    """Keep compiled programs between processes while the block lasts; a cache that the user has set up stays in use.
    Damaged entries are removed when they are found, so that JAX replaces them.

    The setting is global, so blocks that overlap in time (threads) share it: the last one to end restores it.
    """
    global _inside, _before, _show
    with _changing:
        if not _inside:
            _show, warnings.showwarning = warnings.showwarning, _replace_damaged
            if not getattr(jax.config, "jax_compilation_cache_dir", None):
                folder = str(cache_folder() / "compiled")
                _before = _configure(
                    {"jax_compilation_cache_dir": folder, "jax_persistent_cache_min_compile_time_secs": 0.3}
                )
        _inside += 1
    try:
        yield
    finally:
        with _changing:
            _inside -= 1
            if not _inside:
                warnings.showwarning = _show
                if _before:
                    _configure(_before)
                    _before = {}


_changing = threading.Lock()
_inside = 0
_before: dict[str, Any] = {}
_show = warnings.showwarning

DAMAGED = re.compile("Error reading persistent compilation cache entry for '(.+?)'")
"""JAX's warning of an entry that it cannot read. It compiles the program, but keeps the entry as it is."""


def _replace_damaged(message: Warning | str, *details: Any, **more: Any) -> None:
    """Remove the entry that JAX has just warned of, before it writes the compiled program; show any other warning."""
    damaged, folder = DAMAGED.match(str(message)), getattr(jax.config, "jax_compilation_cache_dir", None)
    if not damaged or not folder:
        _show(message, *details, **more)
        return
    entries = list(Path(folder).glob(f"{glob.escape(damaged[1])}-*-cache"))
    for entry in [entry for entry in entries if not _intact(entry)] or entries:
        entry.unlink(missing_ok=True)


def _intact(entry: Path) -> bool:
    """Whether an entry can be unpacked: an incomplete or overwritten one cannot."""
    try:
        zlib.decompress(entry.read_bytes())
    except (OSError, zlib.error):
        return False
    return True


def _configure(settings: dict[str, Any]) -> dict[str, Any]:
    """Change JAX's settings and return the old ones. The cache must be reset to use its new folder."""
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    reset_cache()
    return before


PACKAGES = ("jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scipy", "xarray", "h5netcdf", "matplotlib")
OPTIONAL = ("torch", "transformers")


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers depend on; optional packages only if they are in use."""
    used = [name for name in OPTIONAL if name in sys.modules]
    return {"python": platform.python_version(), **{name: _version(name) for name in (*PACKAGES, *used)}}


_version = cache(version)


def device_name() -> str:
    """The device that JAX computes on, in words, with their number if there are several."""
    device, *others = jax.local_devices()
    several = f", {len(others) + 1} devices" if others else ""
    if device.platform == "cpu":
        return f"cpu ({platform.machine()}, {platform.system()}{several})"
    return f"{device.platform} ({device.device_kind}{several})"
