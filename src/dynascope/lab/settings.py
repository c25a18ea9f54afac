"""JAX's settings around a run, and only there: precision, matrix products, the compilation cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache


@contextmanager
def precision(double: bool, matmul: str) -> Iterator[None]:
    """64-bit numbers or 32-bit ones, and how exactly matrices are multiplied."""
    with jax.enable_x64(double), jax.default_matmul_precision(matmul):
        yield


def cache_folder() -> Path:
    """$DYNASCOPE_CACHE, or `dynascope` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("DYNASCOPE_CACHE") or Path(base) / "dynascope")


@contextmanager
def compilation_cache() -> Iterator[None]:
    """Keep compiled programs between processes while the block lasts. A cache of the user's own choice is
    left alone."""
    if getattr(jax.config, "jax_compilation_cache_dir", None):
        yield
        return
    wanted = {
        "jax_compilation_cache_dir": str(cache_folder() / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0.3,
    }
    before = {name: getattr(jax.config, name) for name in wanted}
    try:
        for name, value in wanted.items():
            jax.config.update(name, value)
        reset_cache()
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        reset_cache()
