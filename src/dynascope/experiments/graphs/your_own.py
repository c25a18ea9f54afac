"""The nodes that each family could distinguish on a graph of your own, before anything is trained."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.drawing import draw_two_nodes, egonet
from dynascope.figures import PALETTE, panels
from dynascope.graphs import Graph, expressivity, number_of_classes, refines, stable_colors
from dynascope.lab.criteria import every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.data import graph_files

MESSAGES, POWERS = "message passing", "powers of A"


class YourOwn(Experiment):
    """Which nodes of your own graph could a network tell apart, before it is trained?"""

    id = "graphs.your-own"
    source = Source(SIMPLE_STRUCTURES, "Propositions 2.3, 2.4, 2.6, Section 2.6.1")
    cost = {"quick": 2, "full": 2}
    presets = {"quick": {}}
    control = {"depth": 1}
    notes = """Give `graph` the path of an edge list (two node numbers in each line), a `.npz`, `.graphml`, `.gml`,
    node-link `.json` or `.pt` file, and `labels` the path of a text with one label in each line, or a node number and
    its label. The default is Cora. Self-loops are kept, repeated edges collapse, nodes without a label are left out of
    the errors; the counts are on the page. The errors are those of the best function of the classes: the share of wrong
    labels, or for labels with a point the mean squared error over the variance. Node features are not used."""

    graph: str = "cora"
    labels: str = ""
    depth: Annotated[int, Field(ge=1, le=50)] = 4

    def data_sets(self) -> tuple[str, ...]:
        graph = graph_files.check_source(self.graph)
        return (graph, self.labels) if self.labels else (graph,)

    def measure(self, seed: int) -> xr.DataTree:
        graph = graph_files.load(self.graph)
        labels = graph_files.load_labels(self.labels, graph.nodes) if self.labels else None
        found = expressivity(graph, labels, depth=self.depth)
        parts = found.partitions
        finer = [
            [
                refines(parts.sel(family=MESSAGES, depth=min(k + 1, self.depth)), parts.sel(family=name, depth=k))
                for k in range(self.depth)
            ]
            for name in parts.family.values[1:]
        ]
        table = found.table.assign(refined=(("operator", "round"), finer))
        counted = {
            "nodes": graph.nodes,
            "edges": len(graph.edges),
            "self_loops": graph.loops,
            "collapsed": graph.collapsed,
            "most_classes": number_of_classes(stable_colors(Graph(graph.indptr, graph.indices))),
            "unlabeled": 0 if found.labels is None else int((~found.labeled).sum()),
        }
        pieces = {"table": table, "graph": xr.Dataset(counted)}
        if found.labels is not None:
            groups = {family: found.confused_classes(family, min(2, self.depth)) for family in (MESSAGES, POWERS)}
            pieces["confused"] = xr.Dataset(
                {
                    "groups": ("family", [len(each) for each in groups.values()]),
                    "nodes": ("family", [sum(map(len, each)) for each in groups.values()]),
                },
                coords={"family": list(groups)},
            )
        example = _example(graph, parts.sel(depth=min(2, self.depth)))
        return xr.DataTree.from_dict(pieces | example)

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.Dataset:
        table = measured["table"].to_dataset()
        gap = table.classes.sel(family=MESSAGES) - table.classes.sel(family=POWERS)
        counted = measured["graph"].to_dataset().data_vars
        return table.assign(counted).assign(gap=gap)

    def judge(self, reduced: xr.Dataset) -> Claims:
        names = ("nodes", "edges", "self_loops", "collapsed", "unlabeled", "most_classes")
        told = {name: int(reduced[name]) for name in names} | {"gap": reduced.gap.values}
        complete = reduced.classes.sel(family=POWERS).max() == reduced.most_classes
        statement = "Powers of A see fewer classes than message passing at some depth, or all that any depth can see"
        yield every("more-classes", statement, bool((reduced.gap > 0).any()) or bool(complete), shown=told)
        statement = "One round more of refinement determines the classes of every family"
        yield every("refinement", statement, reduced.refined)
        cost = next((name for name in ("mistakes", "error") if name in reduced), None)
        if cost is not None:
            statement = "The least error of the labels does not rise with the depth, in any family"
            last = {"last": reduced[cost].isel(depth=-1)}
            yield every("errors-fall", statement, reduced[cost].diff("depth") <= 1e-12, shown=last)

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.Dataset) -> Figures:
        cost = next((name for name in ("mistakes", "error") if name in reduced), None)
        figure, axes = panels(1 if cost is None else 2, size=(4.6, 3.6), squeeze=False)
        for family, color in zip(reduced.family.values, PALETTE, strict=True):
            part = reduced.sel(family=family)
            wide = {"linewidth": 5, "alpha": 0.5} if family == "normalized powers" else {}
            axes[0, 0].plot(part.depth, part.classes, "o-", color=color, label=str(family), **wide)
            if cost is not None:
                axes[0, 1].plot(part.depth, part[cost], "o-", color=color, **wide)
        axes[0, 0].set(xlabel="depth", ylabel="classes", title=f"{int(reduced.nodes)} nodes: how many kinds each sees")
        axes[0, 0].legend(loc="lower right")
        for axis in axes[0]:
            axis.xaxis.get_major_locator().set_params(integer=True)
        if cost is not None:
            name = "share of labels wrong, at least" if cost == "mistakes" else "error / variance, at least"
            axes[0, 1].set(xlabel="depth", ylabel=name, ylim=(0, None), title="What labels cost under each")
        figures = {"your-own": figure}
        if "one" in measured:
            titles = [f"Node {measured[name].attrs.get('node', '')}" for name in ("one", "other")]
            figures["confused-nodes"] = draw_two_nodes(measured, titles)
        return figures


def _example(graph: Graph, classes: xr.DataArray) -> dict[str, xr.Dataset]:
    """Two nodes that powers of A confuse and message passing does not, with small neighborhoods."""
    colors, powers = (classes.sel(family=name).values for name in (MESSAGES, POWERS))
    order = np.lexsort((colors, powers))
    near = (powers[order[:-1]] == powers[order[1:]]) & (colors[order[:-1]] != colors[order[1:]])
    small = graph.degrees[order[:-1]] <= 6
    for at in np.flatnonzero(near & small)[:200].tolist():
        both = [egonet(graph, int(order[each]), 2) for each in (at, at + 1)]
        if max(each.nodes for each in both) <= 30:
            return {
                name: xr.Dataset({"edges": (("edge", "end"), each.edges)}, attrs={"node": int(order[at + number])})
                for number, (name, each) in enumerate(zip(("one", "other"), both, strict=True))
            }
    return {}
