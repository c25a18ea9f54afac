"""The share of a machine that one of several workers takes: processor cores and GPUs of its own."""

from __future__ import annotations

import os
import shutil
import subprocess

MEMORY_SHARE = 0.75
"""The share of a GPU's memory that JAX takes at its start; workers that share a GPU divide it."""


def take_share(number: int, of: int) -> None:
    """Give this process the share of worker `number` of `of` on this machine; call it before JAX computes anything.

    XLA starts a thread for each core it sees; if every worker does so on all cores, their threads wait for each other.
    JAX takes most of the memory of every GPU it sees, and so leaves nothing for the next worker.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[number % of :: of] or {cores[number % len(cores)]})
    if found := gpus():
        os.environ["CUDA_VISIBLE_DEVICES"] = found[number % len(found)]
        together = -(-of // len(found))
        if together > 1:
            os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{MEMORY_SHARE / together:.3f}")


def gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them. It does not wake them up."""
    if os.environ.get("JAX_PLATFORMS", "").partition(",")[0] == "cpu":
        return []
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        return [name.strip() for name in allowed.split(",") if name.strip() not in ("", "-1")]
    lister = shutil.which("nvidia-smi")
    if lister is None:
        return []
    try:
        listed = subprocess.run([lister, "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(number) for number, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU ")]
