"""Table 2.1: the classes of nodes that message passing and powers of the adjacency matrix distinguish."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.drawing import draw_two_nodes, egonet
from dynascope.experiments.seeds import start_seeds
from dynascope.figures import PALETTE, THEORY, panels
from dynascope.graphs import (
    Graph,
    barabasi_albert,
    color_refinement,
    erdos_renyi,
    from_edges,
    number_of_classes,
    operator_classes,
    refines,
)
from dynascope.lab.criteria import agrees, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.data import citation_graphs

PRINTED = {
    "cora": ((37, 1589, 2301, 2363, 2365), (37, 756, 2158, 2359, 2365)),
    "citeseer": ((31, 984, 1855, 2074, 2122), (31, 506, 1550, 2019, 2115)),
    "pubmed": ((82, 8059, 12814, 12990, 12998), (82, 3762, 12014, 12979, 12998)),
}
"""Table 2.1, K = 1 to 5: message passing, then graph-augmented MLPs."""
FAMILIES = ("message passing", "powers of A")


class RootedClasses(Experiment):
    """How many kinds of nodes do message passing and powers of A tell apart?"""

    id = "graphs.rooted-classes"
    source = Source(SIMPLE_STRUCTURES, "Table 2.1, Section 2.6.1")
    cost = {"quick": 2, "full": 2}
    presets = {"quick": {"citations": ("cora",)}}
    control = {"depth": 1}
    notes = """Nodes have no features. All classes are found by sorting, without hashes, and powers of A in exact
    integers. The random graphs, Barabási-Albert with two edges for each new node and G(n, 4/n), are drawn from the
    run's seed. A self-loop counts as one neighbor; Citeseer has 124 of them. At depth 1, the control, both families see
    the degree and nothing more. The quick preset takes Cora alone, which the package carries."""

    citations: tuple[str, ...] = ("cora", "citeseer", "pubmed")
    nodes: Annotated[int, Field(ge=10, le=10**6)] = 2000
    """Nodes of the random graphs."""
    repeats: Annotated[int, Field(ge=1, le=100)] = 3
    """Random graphs of each kind."""
    depth: Annotated[int, Field(ge=1, le=50)] = 5
    self_loops: bool = True

    def data_sets(self) -> tuple[str, ...]:
        return self.citations

    def measure(self, seed: int) -> xr.DataTree:
        graphs = {name: self._citations(name) for name in self.citations}
        for number, each in enumerate(start_seeds(seed, self.repeats)):
            graphs[f"Barabási-Albert {number}"] = barabasi_albert(self.nodes, 2, seed=each)
            graphs[f"G(n, 4/n) {number}"] = erdos_renyi(self.nodes, 4 / self.nodes, seed=each)
        counts, finer, example = [], [], None
        for graph in graphs.values():
            colors, powers = color_refinement(graph, self.depth), operator_classes(graph, self.depth)
            rows = list(zip(colors[1:], powers[1:], strict=True))
            counts.append([[number_of_classes(one) for one in family[1:]] for family in (colors, powers)])
            finer.append([refines(one, other) for one, other in rows])
            if example is None and self.depth > 1:
                example = _confused(graph, colors[2], powers[2])
        coords = {"graph": list(graphs), "family": list(FAMILIES), "depth": np.arange(1, self.depth + 1)}
        counted = xr.Dataset(
            {"classes": (("graph", "family", "depth"), counts), "refines": (("graph", "depth"), finer)}, coords=coords
        )
        parts = {"counted": counted.assign(nodes=("graph", [graph.nodes for graph in graphs.values()]))}
        return xr.DataTree.from_dict(parts | (example or {}))

    def predict(self, measured: xr.DataTree) -> xr.Dataset | None:
        names = [name for name in self.citations if name in PRINTED]
        if not names:
            return None
        table = np.array([PRINTED[name] for name in names])[:, :, : self.depth]
        coords = {"graph": names, "family": list(FAMILIES), "depth": np.arange(1, table.shape[2] + 1)}
        return xr.Dataset({"classes": (("graph", "family", "depth"), table)}, coords=coords)

    def reduce(self, measured: xr.DataTree, predicted: xr.Dataset | None) -> xr.Dataset:
        counted = measured["counted"].to_dataset()
        more, fewer = (counted.classes.sel(family=name, drop=True) for name in FAMILIES)
        reduced = counted.assign(gap=(more - fewer) / more)
        if predicted is not None:
            found = counted.classes.sel(graph=predicted.graph, depth=predicted.depth)
            reduced["printed_difference"] = (found - predicted.classes).rename(graph="citation", depth="row")
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "At some depth message passing sees more classes of nodes than powers of A"
        yield every("more-classes", statement, reduced.gap.max("depth") > 0)
        if "printed_difference" in reduced:
            statement = "The counts on citation graphs are those of Table 2.1"
            yield agrees("table", statement, reduced.printed_difference, 0, absolute=0, source="Table 2.1")
        if self.depth > 1:
            statement = "The relative difference is largest at K = 2"
            yield every("largest-at-two", statement, reduced.gap.depth[reduced.gap.argmax("depth")] == 2)
        statement = "At K = 1 both see the degree: the counts agree"
        yield every("equal-at-one", statement, reduced.gap.sel(depth=1) == 0)
        statement = "Classes of powers of A up to K are unions of the classes of K rounds of color refinement"
        yield every("refinement", statement, reduced.refines, source="Section 2.4")

    def draw(self, measured: xr.DataTree, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Figures:
        shown = [name for name in reduced.graph.values if not name[-1].isdigit() or name.endswith(" 0")][:5]
        figure, axes = panels(len(shown), size=(3.1, 3.2), squeeze=False, sharey=True)
        for axis, name in zip(axes[0], shown, strict=True):
            for family, color in zip(FAMILIES, PALETTE, strict=False):
                part = reduced.sel(graph=name, family=family)
                axis.plot(part.depth, part.classes / part.nodes, "o-", color=color, label=family)
                if predicted is not None and name in predicted.graph:
                    known = predicted.classes.sel(graph=name, family=family)
                    said = "Table 2.1" if family == FAMILIES[0] else None
                    axis.plot(known.depth, known / part.nodes, "x", color=THEORY["color"], ms=4, zorder=4, label=said)
            axis.set_title(str(name).removesuffix(" 0").capitalize() if name in PRINTED else name.removesuffix(" 0"))
            axis.set_xlabel("depth K")
            axis.set_xticks(range(1, self.depth + 1))
        axes[0, 0].set_ylabel("classes / nodes")
        axes[0, 0].legend(loc="lower right")
        figures = {"rooted-classes": figure}
        if "one" in measured:
            degrees = [measured[name].to_dataset().degrees.values.tolist() for name in ("one", "other")]
            titles = [
                f"{own} neighbors, of degrees {' + '.join(map(str, others))} = {sum(others)}"
                for own, *others in degrees
            ]
            figures["confused-nodes"] = draw_two_nodes(measured, titles)
        return figures

    def _citations(self, name: str) -> Graph:
        graph = citation_graphs.structure(name)
        if self.self_loops or not graph.loops:
            return graph
        return from_edges(graph.edges[graph.edges[:, 0] != graph.edges[:, 1]], graph.nodes)


def _confused(graph: Graph, colors: np.ndarray, powers: np.ndarray) -> dict[str, xr.Dataset] | None:
    """Two nodes that powers of A up to 2 confuse and two rounds of refinement do not, with neighborhoods of 8 to 24
    nodes: the pair with the fewest."""
    order = np.lexsort((colors, powers))
    best = None
    for one, other in pairwise(order.tolist()):
        if powers[one] == powers[other] and colors[one] != colors[other] and 3 <= graph.degrees[one] <= 5:
            total = egonet(graph, one, 2).nodes + egonet(graph, other, 2).nodes
            if total >= 16 and (best is None or total < best[0]):
                best = (total, one, other)
                if total <= 24:
                    break
    if best is None:
        return None
    found = {}
    for name, node in zip(("one", "other"), best[1:], strict=True):
        near = egonet(graph, node, 2)
        inside = near.edges[near.edges[:, 0] != near.edges[:, 1]]
        degrees = [graph.degrees[node], *np.sort(graph.degrees[graph.neighbors(node)])[::-1]]
        found[name] = xr.Dataset({"edges": (("edge", "end"), inside), "degrees": ("neighbor", degrees)})
    return found
