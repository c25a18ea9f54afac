"""Trainings of networks that count walks: one family of models on one graph, over learning rates, widths and seeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import xarray as xr
from pydantic import Field, PositiveInt

from dynascope import graphs
from dynascope.dynamics import ensemble
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.graphs.walk_networks import MessageCounter, OperatorCounter, Schedule
from dynascope.lab.experiment import Measurement, Values
from dynascope.models import FeaturedGraph
from dynascope.tasks.data import citation_graphs

Where = Literal["regular", "cora"]
OPERATORS: dict[str, tuple[Any, int, bool]] = {
    "A": (graphs.adjacency, 1, False),
    "A+": (graphs.adjacency, 2, False),
    "Ã(1)": (graphs.with_self_loops, 1, False),
    "Ã(1)+": (graphs.with_self_loops, 2, False),
    "A, standardized": (graphs.adjacency, 1, True),
    "Ã(1), standardized": (graphs.with_self_loops, 1, True),
}
"""By name: the operator, how many powers for each step of the walk, and whether columns are standardized."""
MESSAGES = "GIN"
RECORDINGS = 50


class WalkTraining(Measurement):
    """The errors of GIN, or of GA-MLPs on powers of all operators, while they learn to count walks."""

    family: Literal["messages", "operators"]
    which: Where
    edges: PositiveInt
    """Length of a walk."""
    epochs: PositiveInt
    batch: PositiveInt
    rates: Values
    widths: tuple[PositiveInt, ...]
    schedule: Schedule
    seeds: PositiveInt
    shuffled: bool
    held_out: float = Field(0.0, ge=0, lt=1)
    """The share of the training nodes that are kept for validation, every fifth for 0.2."""
    jumping: bool = True
    """Whether GIN has jumping knowledge."""
    operators: tuple[str, ...] = tuple(OPERATORS)
    """Which GA-MLPs are trained."""

    def data_sets(self) -> tuple[str, ...]:
        return ("cora",) if self.which == "cora" else ()

    def measure(self, seed: int) -> xr.Dataset:
        """The errors, (model, setting, seed, recording, split); settings are rates for each width."""
        graph, y, order, count = problem(self.which, self.edges, seed, shuffled=self.shuffled)
        order, held = with_validation(order, count, self.held_out)
        count -= held
        steps = self.epochs * -(-count // self.batch)
        common = {"train": count, "batch": self.batch, "steps": steps, "schedule": self.schedule, "held": held}
        fixed: dict[str, Any] = {"y": y.astype(np.float32), "order": order.astype(np.int32)}
        rate, width = np.array([(rate, width) for width in self.widths for rate in self.rates], np.float32).T
        over: dict[str, Any] = {"setting": {"rate": rate, "width": width}, "seed": member_seeds(seed, self.seeds)}
        if self.family == "messages":
            member = MessageCounter(max(self.widths), depth=self.edges, jumping=self.jumping, **common)
            fixed["graph"] = FeaturedGraph(graph)
        else:
            member = OperatorCounter(max(self.widths), **common)
            over = {
                "model": _padded([columns_of(graph, self.edges, *OPERATORS[name]) for name in self.operators]),
                **over,
            }
        record = np.unique(np.linspace(0, steps, RECORDINGS + 1).astype(int))
        error = ensemble(member, over, fixed=fixed, steps=steps, record=record, keep=False).trace.error
        error = error.expand_dims(model=[MESSAGES]) if self.family == "messages" else error
        error = error.rename(step="recording").assign_coords(
            model=[MESSAGES] if self.family == "messages" else list(self.operators),
            recording=np.arange(len(record)),
            rate=("setting", rate),
            width=("setting", width.astype(int)),
        )
        return xr.Dataset({"error": error.drop_vars("setting")}, attrs={"seed": seed})


def problem(
    which: Where, edges: int, seed: int, *, shuffled: bool = False
) -> tuple[graphs.Graph, np.ndarray, np.ndarray, int]:
    """The colored graph, its labels, the nodes with those to train on first, and how many these are."""
    if which == "cora":
        graph = graphs.parity_colors(citation_graphs.structure("cora"))
        rng = np.random.default_rng(seed)
        colors = [rng.permutation(np.arange(start, graph.nodes, 2)) for start in (0, 1)]
        order = np.concatenate([part[:500] for part in colors] + [part[500:] for part in colors])
        count = 1000
    else:
        graph = graphs.parity_colors(graphs.random_regular(6, 1000, seed=seed))
        order, count = np.arange(graph.nodes), 300
    y = graphs.walk_counts(graph, np.arange(graph.nodes) % 2, [0] * (edges + 1)).astype(float)
    return graph, np.random.default_rng(seed + 1).permutation(y) if shuffled else y, order, count


def with_validation(order: np.ndarray, count: int, share: float) -> tuple[np.ndarray, int]:
    """The nodes with those of validation behind those that are left to train on, and how many they are."""
    if share == 0:
        return order, 0
    every = round(1 / share)
    held = np.arange(count) % every == every - 1
    inside = order[:count]
    return np.concatenate([inside[~held], inside[held], order[count:]]), int(held.sum())


def columns_of(graph: graphs.Graph, length: int, operator: Any, more: int, standardized: bool) -> np.ndarray:
    """The features X, ωX, ω²X, ... of every node, (nodes, columns)."""
    powers = graphs.powers(operator(graph), graph.features, length * more).astype(float)
    columns = powers.transpose(1, 0, 2).reshape(graph.nodes, -1)
    return (columns - columns.mean(0)) / np.maximum(columns.std(0), 1e-9) if standardized else columns


def similar(widths: Iterable[int]) -> list[tuple[int, ...]]:
    """The widths in groups, within which the largest is at most eight times the smallest: in one array program every
    network costs as much as the widest."""
    groups: list[tuple[int, ...]] = []
    for width in sorted(widths):
        if groups and width <= 8 * groups[-1][0]:
            groups[-1] = (*groups[-1], width)
        else:
            groups.append((width,))
    return groups


def _padded(features: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Features of different lengths as one array, and which of its columns are used."""
    columns = max(each.shape[1] for each in features)
    padded = [np.pad(each, ((0, 0), (0, columns - each.shape[1]))) for each in features]
    used = [np.arange(columns) < each.shape[1] for each in features]
    return {"features": np.stack(padded).astype(np.float32), "used": np.stack(used).astype(np.float32)}
