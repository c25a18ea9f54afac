"""Which backend members run on: a kernel if they fit on the chip of an NVIDIA GPU, else the ordinary loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import PyTree

from dynascope.dynamics.backends.kernel import LARGEST, Footprint, first_kernel, footprint, supports
from dynascope.dynamics.backends.ordinary import Backend, Ordinary
from dynascope.dynamics.backends.padded import NotInKernel
from dynascope.dynamics.process import SteppedProcess
from dynascope.dynamics.schedule import Schedule
from dynascope.dynamics.schema import Member


class Support(NamedTuple):
    """Whether members can run as a kernel."""

    reason: str
    """Why not; empty if they can."""
    member: Footprint | None = None
    required: bool = False
    """Whether the user asked for it."""


def find_support(
    member: Member,
    setting: Mapping[str, PyTree],
    fixed: Mapping[str, PyTree],
    *,
    device: jax.Device,
    on_chip: bool | None,
) -> Support:
    """Look at one member's step, abstractly.

    Args:
        member: Makes the processes.
        setting: One member's settings.
        fixed: Settings that all members share.
        device: Where they run.
        on_chip: True if the user requires a kernel, False to forbid one.
    """
    if on_chip is False:
        return Support("on_chip=False")
    seen: list[Support] = []

    def evaluate(setting: Mapping[str, PyTree], fixed: Mapping[str, PyTree]) -> None:
        process = member(**setting, **fixed)
        reason = supports(device, process)
        if reason is None:
            assert isinstance(process, SteppedProcess)
            takes = footprint(process, process.start())
            fits = takes.size <= LARGEST
            reason = "" if fits else f"a member takes {takes.size / 1024:.0f} KiB, and {LARGEST // 1024} fit"
            seen.append(Support(reason, takes, bool(on_chip)))
        else:
            seen.append(Support(reason))

    try:
        eqx.filter_eval_shape(evaluate, setting, fixed)
    except NotInKernel as unknown:
        seen.append(Support(f"the kernel has no {unknown}"))
    except Exception as error:
        if on_chip:
            raise
        seen.append(Support(f"its step cannot be made a kernel ({str(error).partition(chr(10))[0][:120]})"))
    support = seen[-1]
    if on_chip and support.reason:
        raise ValueError(f"on_chip: the members cannot run on a chip: {support.reason}")
    return support


def choose(support: Support, schedule: Schedule, width: int) -> Backend:
    """The backend for a batch of so many members on each device, before anything is measured."""
    if support.reason or support.member is None:
        return Ordinary(support.reason)
    return first_kernel(support.member, schedule, width, support.required)
