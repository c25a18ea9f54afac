"""Learning at the nodes of one graph, in minibatches of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float, Int

from dynascope import checks
from dynascope.tasks.supervised import LOSSES
from dynascope.tasks.task import DataTask


class NodeTask(DataTask):
    """Targets at the nodes of one graph: the data are (node numbers, targets), the model is called as `model(graph,
    nodes)`.

    A minibatch is a few nodes, and the model sees the whole graph around them.

    Args:
        graph: The model's first argument, such as a `models.FeaturedGraph`.
        loss: As for `Supervised`: "mse", "cross-entropy", or a function of the outputs and the targets of those nodes.
    """

    graph: Any
    criterion: Callable[[Any, Any], Any]

    def __init__(self, graph: Any, loss: str | Callable[[Any, Any], Any] = "mse") -> None:
        self.graph = graph
        self.criterion = loss if callable(loss) else LOSSES[checks.one_of("loss", loss, LOSSES)]

    def loss(self, model: Callable[[Any, Any], Any], batch: tuple[Int[Array, " n"], Array], /) -> Float[Array, ""]:
        """The loss at these nodes."""
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TypeError(f"NodeTask takes data=(nodes, targets); got {checks.shown(batch)}")
        nodes, targets = batch
        return self.criterion(model(self.graph, nodes), targets)
