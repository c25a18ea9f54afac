"""The choice of a backend: a kernel if members fit on the chip of an NVIDIA GPU, else the ordinary loop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from dynascope.dynamics.backends.kernel import LARGEST, Footprint, first_kernel, footprint
from dynascope.dynamics.backends.ordinary import Backend, Ordinary
from dynascope.dynamics.backends.padded import NotInKernel
from dynascope.dynamics.process import SteppedProcess
from dynascope.dynamics.schedule import Schedule
from dynascope.dynamics.schema import MemberLike


def choose(
    member: MemberLike,
    settings: Mapping[str, PyTree],
    fixed: Mapping[str, PyTree],
    schedule: Schedule,
    *,
    device: jax.Device,
    width: int,
    on_chip: bool | None,
) -> Backend:
    """The backend for members of an ensemble, before anything is measured.

    Args:
        member: Makes the processes.
        settings: The settings of all members.
        fixed: Settings that all members share.
        schedule: When they stop.
        device: The device on which they run.
        width: How many run side by side on each device, at most.
        on_chip: True if the user requires a kernel, False to forbid one.
    """
    interpret = os.environ.get("DYNASCOPE_INTERPRET_KERNELS", "") not in ("", "0")  # for tests without a GPU
    if on_chip is False:
        reason = "on_chip=False"
    elif not interpret and "NVIDIA" not in device.device_kind:
        reason = "it needs an NVIDIA GPU"
    elif not find_spec("jax.experimental.pallas.triton"):
        reason = f"JAX {jax.__version__} has no Pallas for Triton"
    else:
        found = _examine(member, settings, fixed, required=bool(on_chip))
        if not isinstance(found, str):
            return first_kernel(found, schedule, width, required=bool(on_chip), interpret=interpret)
        reason = found
    if on_chip:
        raise ValueError(f"on_chip: the members cannot run on a chip: {reason}")
    return Ordinary(f"ordinary: {reason}")


def _examine(
    member: MemberLike, settings: Mapping[str, PyTree], fixed: Mapping[str, PyTree], *, required: bool
) -> Footprint | str:
    """Evaluate one member's step abstractly: the memory that it takes on the chip, or the reason why it cannot be a
    kernel."""
    seen: list[Footprint | str] = []
    setting = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), settings)

    def evaluate(setting: Mapping[str, PyTree], fixed: Mapping[str, PyTree]) -> None:
        process = member(**setting, **fixed)
        if not isinstance(process, SteppedProcess):
            seen.append(f"{type(process).__name__} does not move in steps")
            return
        takes = footprint(process, process.start())
        fits = takes.size <= LARGEST
        seen.append(takes if fits else f"a member takes {takes.size / 1024:.0f} KiB, and {LARGEST // 1024} fit")

    try:
        eqx.filter_eval_shape(evaluate, setting, fixed)
    except NotInKernel as unknown:
        return f"the kernel has no {unknown}"
    except Exception as error:
        if required:
            raise
        return f"its step cannot be made a kernel ({str(error).partition(chr(10))[0][:120]})"
    return seen[-1]
