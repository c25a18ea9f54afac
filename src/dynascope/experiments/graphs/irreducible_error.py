"""Walk counts as functions of a node: the irreducible error under the classes of a GA-MLP, before anything is
trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope import graphs
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.figures import FAINT, INK, PALETTE, legend_beside, panels
from dynascope.lab.criteria import above, below, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.data import citation_graphs

FAMILIES = ("powers", "powers without I", "powers with self-loops", "message passing")
PRINTED = {
    ("powers", 2, 2): (143, 0.01597, 5e-6),
    ("powers", 2, 4): (993, 2.8e-4, 5e-6),
    ("powers", 3, 3): (769, 0.0040, 5e-5),
    ("powers", 3, 6): (1000, 0.0, 1e-12),
    ("powers without I", 2, 2): (106, 0.238, 5e-4),
    ("powers without I", 3, 3): (716, 0.070, 5e-4),
}
"""For (family, edges, order) on networkx's regular graph of seed 0: the classes and the error, found with an
independent program, and half a unit of its last digit."""
CORA = {
    ("powers", 2, 2): (2041, 3.3e-4, 5e-6),
    ("powers without I", 2, 2): (1906, 0.033, 5e-4),
    ("powers", 2, 4): (2488, 0.0, 1e-12),
}


class IrreducibleError(Experiment):
    """How much of a walk count can no GA-MLP see, however it is trained?"""

    id = "graphs.irreducible-error"
    source = Source(SIMPLE_STRUCTURES, "Section 2.5, Proposition 2.7; Section 2.6")
    cost = {"quick": 5, "full": 4}
    presets = {"quick": {"drawn": 10}}
    control = {"edges": (1,)}
    notes = """Nodes that every operator of a family gives the same features are one class, and a function of them is
    constant on it: the variance of the label within classes, as a share of all, is an error that no training can
    remove.
    Colors are the parity of the node's number; labels count walks through blue nodes, the node itself included. Random
    6-regular graphs of 1000 nodes are drawn from the run's seed; graph 0 is the document's, of networkx's seed 0. The
    control counts walks of one edge, that is blue neighbors, which every family sees."""

    edges: tuple[int, ...] = Field((2, 3), min_length=1)
    """The lengths of the walks."""
    degree: int = Field(6, ge=2)
    nodes: int = Field(1000, ge=10)
    drawn: int = Field(20, ge=1)
    """Number of random graphs besides the document's."""
    cora: bool = True

    def data_sets(self) -> tuple[str, ...]:
        return ("cora",) if self.cora else ()

    def measure(self, seed: int) -> xr.Dataset:
        drawn = np.random.default_rng(seed).integers(1, 2**31, self.drawn)
        found = [graphs.random_regular(self.degree, self.nodes, seed=int(each)) for each in (0, *drawn)]
        named = {f"regular {number}": graph for number, graph in enumerate(found)}
        if self.cora:
            named["cora"] = citation_graphs.structure("cora")
        tables = [self.table(graphs.parity_colors(graph)) for graph in named.values()]
        return xr.concat(tables, "graph").assign_coords(graph=list(named))

    def table(self, graph: graphs.Graph) -> xr.Dataset:
        """Classes and errors, (family, edges, order), of one colored graph; message passing at the walk's length."""
        most = 2 * max(self.edges)
        classes: dict[str, Any] = {
            "powers": graphs.operator_classes(graph, most),
            "powers without I": graphs.operator_classes(graph, most, own=False),
            "powers with self-loops": graphs.operator_classes(graph, most, operator=graphs.with_self_loops),
            "message passing": graphs.color_refinement(graph, most),
        }
        colors = np.arange(graph.nodes) % 2
        labels = [graphs.walk_counts(graph, colors, [0] * (length + 1)) for length in self.edges]
        errors = [
            [[graphs.irreducible_error(classes[name][order], y) for order in range(1, most + 1)] for y in labels]
            for name in FAMILIES
        ]
        counts = [[graphs.number_of_classes(each) for each in classes[name][1:]] for name in FAMILIES]
        return xr.Dataset(
            {
                "error": (("family", "edges", "order"), errors),
                "classes": (("family", "order"), counts),
                "variance": ("edges", [float(np.var(y)) for y in labels]),
            },
            coords={"family": list(FAMILIES), "edges": list(self.edges), "order": np.arange(1, most + 1)},
        )

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        at = xr.DataArray(list(self.edges), dims="edges", coords={"edges": list(self.edges)})
        return measured.assign(
            at_length=measured.error.sel(order=at, edges=at), doubled=measured.error.sel(order=2 * at, edges=at)
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        regular = reduced.sel(graph=[name for name in reduced.graph.values.tolist() if name != "cora"])
        shortest = regular.at_length.sel(edges=self.edges[0])
        statement = "With as many powers as the walk has edges, nodes of one class differ in their counts (error)"
        yield above("classes-mix", statement, shortest.sel(family="powers"), 0.01, seeds=self.drawn)
        messages = reduced.at_length.sel(family="message passing")
        yield below("messages-see", "Message passing as deep as the walk is long leaves no error", messages, 1e-12)
        statement = (
            "Without I the color of the node itself is nearly invisible: the error is several times as large (ratio)"
        )
        alone = regular.at_length.sel(family="powers").where(lambda error: error > 0)
        ratio = regular.at_length.sel(family="powers without I") / alone
        yield above("identity-matters", statement, ratio, 5)
        statement = "Twice the powers leave a fraction of the error: classes become single nodes"
        yield below("more-powers", statement, regular.doubled.sel(family="powers") / alone, 0.1)
        same = regular.classes.sel(family="powers") == regular.classes.sel(family="powers with self-loops")
        statement = "On regular graphs A and the normalized Ã(1) have equally many classes at every order"
        yield every("same-classes", statement, same)
        yield from self.digits(reduced, "regular 0", "document-graph", PRINTED)
        if self.cora:
            yield from self.digits(reduced, "cora", "cora", CORA)

    def digits(self, reduced: xr.Dataset, graph: str, id: str, known: Mapping[Any, tuple[int, float, float]]) -> Claims:
        """Classes and errors are those found by an independent program, to its digits."""
        wanted = {key: value for key, value in known.items() if key[1] in self.edges}
        if not wanted or (self.degree, self.nodes) != (6, 1000):
            return
        found = [reduced.sel(graph=graph, family=f, edges=e, order=k) for f, e, k in wanted]
        counts = [int(each.classes) for each in found]
        same = [a == b[0] for a, b in zip(counts, wanted.values(), strict=True)]
        statement = f"The classes of {graph} are those of an independent program"
        yield every(f"{id}-classes", statement, same, shown={"classes": counts})
        away = [
            abs(float(each.error) - value[1]) / value[2] for each, value in zip(found, wanted.values(), strict=True)
        ]
        statement = f"So are the errors of {graph}, to its last digit (difference over half a unit)"
        yield below(f"{id}-errors", statement, away, 1.05)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(len(self.edges), squeeze=False)
        shown = {"powers": PALETTE[0], "powers without I": PALETTE[2], "message passing": PALETTE[1]}
        regular = reduced.error.sel(graph=[name for name in reduced.graph.values.tolist() if name != "cora"])
        lowest = 1e-6
        for panel, length in zip(axes[0], self.edges, strict=True):
            for name, color in shown.items():
                rows = regular.sel(family=name, edges=length)
                panel.plot(rows.order, np.maximum(rows, lowest).T, color=color, alpha=0.25, linewidth=0.8)
                middle = np.maximum(rows.median("graph"), lowest)
                panel.plot(rows.order, middle, "o-", color=color, label=f"regular, {name}")
                if self.cora:
                    cora = np.maximum(reduced.error.sel(graph="cora", family=name, edges=length), lowest)
                    panel.plot(cora.order, cora, "s--", color=color, markersize=4, linewidth=1, label=f"Cora, {name}")
            panel.axvline(length, color=FAINT, linewidth=0.8)
            panel.text(length, 1.6, " order = edges", color=INK, fontsize=8, va="bottom")
            panel.set(xlabel="order of the powers, or depth", xticks=reduced.order.values)
            panel.set(yscale="log", ylim=(lowest / 2, 1.5))
            panel.set_title(f"Walks of {length} edge{'s' if length > 1 else ''}", pad=16)
        axes[0][0].set_ylabel("irreducible error / variance (0 drawn at 1e-6)")
        legend_beside(axes[0][-1])
        return {"irreducible-error": figure}
