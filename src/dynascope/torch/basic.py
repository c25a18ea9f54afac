"""The loss, the distance from the start, and the learning rate of a PyTorch training."""

from __future__ import annotations

import torch
from torch import Tensor

from dynascope.probes.probe import Every, Probe, probe
from dynascope.torch.snapshot import Snapshot


def loss(*, every: Every = None) -> Probe:
    """The loss on all the data.

    Args:
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with a scalar value.
    """
    return probe(lambda snapshot: snapshot.loss(), every=every)


def displacement(*, every: Every = None) -> Probe:
    """The Euclidean distance of the parameters from the first recording.

    Args:
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with a scalar value.
    """

    def measure(snapshot: Snapshot, start: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        pairs = zip(snapshot.objective.parameters, start, strict=True)
        squares = [torch.sum((now - then.to(now.device)).double() ** 2) for now, then in pairs]
        return torch.stack([square.cpu() for square in squares]).sum().sqrt(), start

    return Probe(measure, every=every, initial_state=_copy)


def learning_rate(*, every: Every = None) -> Probe:
    """The learning rate that the optimizer will use next, that of its first group of parameters.

    Args:
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with a scalar value.
    """

    def measure(snapshot: Snapshot) -> Tensor:
        if snapshot.optimizer is None:
            raise ValueError("learning_rate needs the optimizer: give optimizer=")
        return torch.as_tensor(snapshot.optimizer.param_groups[0]["lr"], dtype=torch.float64)

    return probe(measure, every=every)


def _copy(snapshot: Snapshot) -> list[Tensor]:
    """The parameters of the first recording, kept on the host."""
    return [parameter.to("cpu", copy=True) for parameter in snapshot.objective.parameters]
