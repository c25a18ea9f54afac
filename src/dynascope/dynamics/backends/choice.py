"""Which backend members run on: a kernel if they fit on the chip of an NVIDIA GPU, else the ordinary loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from dynascope.dynamics.backends.kernel import LARGEST, Footprint, device_lacks, first_kernel, footprint
from dynascope.dynamics.backends.ordinary import Backend, Ordinary
from dynascope.dynamics.backends.padded import NotInKernel
from dynascope.dynamics.process import SteppedProcess
from dynascope.dynamics.schedule import Schedule
from dynascope.dynamics.schema import MemberLike


class Support(NamedTuple):
    """Whether members can run as a kernel."""

    reason: str
    """Why not; empty if they can."""
    member: Footprint | None = None
    required: bool = False
    """Whether the user asked for it."""


def find_support(
    member: MemberLike, settings: PyTree, fixed: PyTree, *, device: jax.Device, on_chip: bool | None
) -> Support:
    """Look at one member's step, abstractly, if there is a chance that it can be a kernel.

    Args:
        member: Makes the processes.
        settings: The settings of all members.
        fixed: Settings that all members share.
        device: Where they run.
        on_chip: True if the user requires a kernel, False to forbid one.
    """
    reason = "on_chip=False" if on_chip is False else device_lacks(device)
    support = Support(reason) if reason else _examine(member, settings, fixed, bool(on_chip))
    if on_chip and support.reason:
        raise ValueError(f"on_chip: the members cannot run on a chip: {support.reason}")
    return support


def _examine(member: MemberLike, settings: PyTree, fixed: PyTree, required: bool) -> Support:
    seen: list[Support] = []
    setting = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), settings)

    def evaluate(setting: Mapping[str, PyTree], fixed: Mapping[str, PyTree]) -> None:
        process = member(**setting, **fixed)
        if not isinstance(process, SteppedProcess):
            seen.append(Support(f"{type(process).__name__} does not move in steps"))
            return
        takes = footprint(process, process.start())
        fits = takes.size <= LARGEST
        reason = "" if fits else f"a member takes {takes.size / 1024:.0f} KiB, and {LARGEST // 1024} fit"
        seen.append(Support(reason, takes, required))

    try:
        eqx.filter_eval_shape(evaluate, setting, fixed)
    except NotInKernel as unknown:
        seen.append(Support(f"the kernel has no {unknown}"))
    except Exception as error:
        if required:
            raise
        seen.append(Support(f"its step cannot be made a kernel ({str(error).partition(chr(10))[0][:120]})"))
    return seen[-1]


def choose(support: Support, schedule: Schedule, width: int) -> Backend:
    """The backend for a batch of so many members on each device, before anything is measured."""
    if support.reason or support.member is None:
        return Ordinary(support.reason)
    return first_kernel(support.member, schedule, width, support.required)
