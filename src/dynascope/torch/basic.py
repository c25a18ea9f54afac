"""The loss, the distance from the start, and the learning rate of a PyTorch training."""

from __future__ import annotations

import math

from torch import Tensor

from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Probe, probe
from dynascope.torch.snapshot import Snapshot
from dynascope.torch.weights import distance


def loss(*, every: Every = None) -> Probe:
    """The loss on all the data.

    Args:
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with a scalar value.
    """
    return describe_probe(probe(lambda snapshot: snapshot.loss(), every=every), "loss")


def displacement(*, every: Every = None) -> Probe:
    """The Euclidean distance of the parameters from the first recording.

    Args:
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with a scalar value.
    """

    def measure(snapshot: Snapshot, start: list[Tensor]) -> tuple[float, list[Tensor]]:
        pairs = zip(snapshot.objective.parameters, start, strict=True)
        return math.hypot(*(distance(now, then) for now, then in pairs)), start

    return describe_probe(Probe(measure, every=every, initial_state=_copy), "displacement")


def learning_rate(*, every: Every = None) -> Probe:
    """The learning rate that the optimizer will use next, that of its first group of parameters.

    Args:
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with a scalar value.
    """

    def measure(snapshot: Snapshot) -> float:
        if snapshot.optimizer is None:
            raise ValueError("learning_rate needs the optimizer: give optimizer=")
        return float(snapshot.optimizer.param_groups[0]["lr"])

    return describe_probe(probe(measure, every=every), "learning_rate")


def _copy(snapshot: Snapshot) -> list[Tensor]:
    """The parameters of the first recording, kept on the host."""
    return [parameter.to("cpu", copy=True) for parameter in snapshot.objective.parameters]
