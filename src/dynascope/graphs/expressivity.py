"""The nodes that each kind of graph network can tell apart on a graph, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Bool, Int

from dynascope import checks
from dynascope.graphs.floors import irreducible_error, irreducible_mistakes
from dynascope.graphs.graph import Graph
from dynascope.graphs.operators import adjacency, normalized_adjacency, with_self_loops
from dynascope.graphs.partitions import number_of_classes
from dynascope.graphs.refinement import color_refinement, operator_classes

MESSAGES = "message passing"
"""The name of the family that distinguishes all colors of Weisfeiler-Lehman refinement."""
OPERATORS: Mapping[str, Callable[[Graph], Any]] = {
    "powers of A": adjacency,
    "normalized powers": normalized_adjacency,
    "powers with self-loops": with_self_loops,
}
"""The operators that `expressivity` looks at if none are named."""


@dataclass(frozen=True, eq=False)
class Expressivity:
    """The classes of nodes that each family of networks can distinguish, and the error of labels under them."""

    graph: Graph
    """The graph."""
    table: xr.Dataset
    """`classes(family, depth)`: the number of classes; `alone(family, depth)`: the share of nodes that are alone in
    theirs. With labels also `mistakes(family, depth)`, the least share of labeled nodes labeled wrongly by a function
    of the classes; or, for labels that are floats, `error(family, depth)`, the least mean squared error over the
    variance."""
    partitions: xr.DataArray
    """The class of each node, (family, depth, node)."""
    labels: np.ndarray | None
    """The labels, if there are any."""
    labeled: Bool[np.ndarray, " nodes"]
    """Marks of the nodes with a label."""

    def confused_classes(self, family: str, depth: int) -> list[Int[np.ndarray, " members"]]:
        """The classes whose members have different labels, the largest first: no network of this family and depth can
        tell their nodes apart, though it should.

        Args:
            family: The name of a family in `table`.
            depth: The depth.
        """
        checks.one_of("family", family, self.partitions.family.values.tolist())
        checks.whole("depth", depth, at_least=0, at_most=int(self.partitions.depth.max()))
        if self.labels is None:
            raise ValueError("confused_classes needs labels; give them to expressivity")
        nodes = np.flatnonzero(self.labeled)
        classes = self.partitions.sel(family=family, depth=depth).values[nodes]
        order = np.lexsort((nodes, classes))
        groups = np.split(nodes[order], np.flatnonzero(np.diff(classes[order])) + 1)
        mixed = [group for group in groups if len(np.unique(self.labels[group])) > 1]
        return sorted(mixed, key=len, reverse=True)

    def __str__(self) -> str:
        lines = [f"{self.graph.nodes} nodes, {len(self.graph.edges)} edges{self._told()}"]
        what = {"classes": "d", "mistakes": ".2%", "error": ".3g"}
        for name, form in what.items():
            if name in self.table:
                lines += ["", f"{name:24s}" + "".join(f"depth {depth:<6d}" for depth in self.table.depth.values)]
                for family in self.table.family.values:
                    row = self.table[name].sel(family=family).values.tolist()
                    lines.append(f"{family:24s}" + "".join(f"{value:<12{form}}" for value in row))
        return "\n".join(lines)

    def _told(self) -> str:
        said = {
            "self-loops kept": self.graph.loops,
            "repeated edges collapsed": self.graph.collapsed,
            "nodes without a label left out of the errors": 0 if self.labels is None else int((~self.labeled).sum()),
        }
        return "".join(f"; {count} {words}" for words, count in said.items() if count)


def expressivity(
    graph: Graph,
    labels: Any = None,
    operators: Mapping[str, Callable[[Graph], Any]] | None = None,
    depth: int = 4,
    *,
    tolerance: float | None = None,
) -> Expressivity:
    """The number of node classes that message passing and each operator's powers distinguish at every depth, and the
    least error of labels.

    Args:
        graph: The graph; its features, or constant ones, are the input.
        labels: Classes (integers; -1 for none) or values (floats; NaN for none), (nodes,). Default: the graph's own.
        operators: Functions ω of the graph by name, for the families I, ω, ..., ω^depth. Default: `OPERATORS`.
        depth: The largest depth.
        tolerance: The distance at which floats count as equal. Default: the bound on their rounding; see
            `operator_classes`.
    """
    if not isinstance(graph, Graph) or graph.nodes == 0:
        raise TypeError(f"graph must be a Graph with one node or more; got {checks.shown(graph)}")
    checks.whole("depth", depth, at_least=0, at_most=1000)
    if tolerance is not None:
        checks.real("tolerance", tolerance, at_least=0)
    chosen = OPERATORS if operators is None else operators
    if not isinstance(chosen, Mapping) or not all(callable(operator) for operator in chosen.values()):
        raise TypeError(f"operators must be a dict of functions of a graph by name; got {checks.shown(operators)}")
    given = graph.labels if labels is None else labels
    values, labeled = (None, np.ones(graph.nodes, bool)) if given is None else _labels(given, graph.nodes)
    found = {MESSAGES: color_refinement(graph, depth)}
    for name, operator in chosen.items():
        found[str(name)] = operator_classes(graph, depth, operator=operator, tolerance=tolerance)
    return Expressivity(graph, _table(found, values, labeled), _partitions(found), values, labeled)


def _partitions(found: Mapping[str, np.ndarray]) -> xr.DataArray:
    stacked = np.stack(list(found.values()))
    coords = {"family": list(found), "depth": np.arange(stacked.shape[1])}
    return xr.DataArray(stacked, dims=("family", "depth", "node"), coords=coords)


def _table(found: Mapping[str, np.ndarray], labels: np.ndarray | None, labeled: np.ndarray) -> xr.Dataset:
    def entries(measure: Callable[[np.ndarray], float]) -> Any:
        return ("family", "depth"), [[measure(classes) for classes in rounds] for rounds in found.values()]

    columns = {"classes": entries(number_of_classes), "alone": entries(_alone)}
    if labels is not None and labeled.any():
        name, cost = ("error", irreducible_error) if labels.dtype.kind == "f" else ("mistakes", irreducible_mistakes)
        columns[name] = entries(lambda classes: cost(classes[labeled], labels[labeled]))
    depths = np.arange(len(next(iter(found.values()))))
    return xr.Dataset(columns, coords={"family": list(found), "depth": depths})


def _alone(classes: np.ndarray) -> float:
    return float(np.mean(np.bincount(classes)[classes] == 1))


def _labels(labels: Any, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(checks.array("labels", labels, ndim=1))
    if len(values) != nodes:
        raise ValueError(f"labels must hold one label for each of the {nodes} nodes; got {len(values)}")
    labeled = ~np.isnan(values) if values.dtype.kind == "f" else values != -1
    if np.any(np.isinf(values)):
        raise ValueError(f"labels must be finite; got {checks.shown(labels)} with infinity")
    if not labeled.any():
        raise ValueError("labels must hold a label for at least one node; got only -1 or nan")
    return values, labeled
