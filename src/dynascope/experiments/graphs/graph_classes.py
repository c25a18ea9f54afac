"""Table A.1: the classes of graphs that message passing and powers of the adjacency matrix distinguish."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.drawing import draw_graph, joint_colors, layout
from dynascope.figures import FAINT, PALETTE, panels
from dynascope.graphs import (
    Graph,
    GraphBatch,
    barabasi_albert,
    batch,
    caveman,
    color_refinement,
    erdos_renyi,
    graph_codes,
    isomorphism_classes,
    number_of_classes,
    operator_classes,
    random_regular,
)
from dynascope.lab.criteria import agrees, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.data import graph_sets

PRINTED = {
    "tu_IMDBBINARY": (51, 537, 537, 537),
    "tu_IMDBMULTI": (49, 387, 387, 387),
    "tu_REDDIT-BINARY": (781, 1998, 1998, 1998),
    "tu_REDDIT-MULTI-5K": (1365, 4999, 4999, 4999),
    "tu_COLLAB": (294, 4080, 4080, 4080),
}
"""Table A.1: its rows K = 1, 2, 3, the same for both families, and the isomorphism classes."""
SIZES = "The random graphs have 20 to 60 nodes: of those with 8 to 24, tried first, 2 in 168 shared their degrees."
FAMILIES = ("message passing", "powers of A")


class GraphClasses(Experiment):
    """How many graphs of a data set do message passing and powers of A tell apart?"""

    id = "graphs.graph-classes"
    source = Source(SIMPLE_STRUCTURES, "Table A.1, Appendix A.3")
    cost = {"quick": 2, "full": 13}
    presets = {
        "quick": {"sets": (), "graphs": 300},
        "table": {"sets": ("tu_IMDBBINARY", "tu_IMDBMULTI", "tu_REDDIT-BINARY", "tu_REDDIT-MULTI-5K", "tu_COLLAB")},
    }
    control = {"family": "regular"}
    notes = """Nodes have no features. A graph's code is the multiset of its nodes' classes; isomorphism classes come
    from refinement and an exact search. `rounds` counts propagations, from 0: the document's row K is round K - 1.
    Preset `table` takes all five data sets of the document. Quick takes random graphs alone: G(n, 1/2),
    Barabási-Albert and caveman graphs, a third of which are copies of others with their nodes shuffled. The control
    takes 3-regular graphs, which neither family tells apart."""

    sets: tuple[str, ...] = ("tu_IMDBBINARY", "tu_IMDBMULTI", "tu_REDDIT-BINARY")
    graphs: Annotated[int, Field(ge=6, le=10**5)] = 1000
    """Random graphs, copies among them."""
    family: Literal["mixed", "regular"] = "mixed"
    rounds: Annotated[int, Field(ge=1, le=20)] = 3

    def data_sets(self) -> tuple[str, ...]:
        return self.sets

    def measure(self, seed: int) -> xr.Dataset:
        random, copied = self._random(seed)
        every = {name: graph_sets.load(name).graphs for name in self.sets} | {"random": random}
        counts, sizes, same, found = [], [], [], np.zeros(0, np.int64)
        for graphs in every.values():
            families = (color_refinement(graphs.joined, self.rounds), operator_classes(graphs.joined, self.rounds))
            counts.append([[number_of_classes(graph_codes(graphs, one)) for one in family] for family in families])
            sizes.append(len(np.unique(graphs.sizes)))
            found = isomorphism_classes(graphs)
            same.append(number_of_classes(found))
        coords = {"set": list(every), "family": list(FAMILIES), "round": np.arange(self.rounds + 1)}
        return xr.Dataset(
            {
                "classes": (("set", "family", "round"), counts),
                "isomorphism_classes": ("set", same),
                "node_counts": ("set", sizes),
                "graphs": ("set", [len(graphs) for graphs in every.values()]),
                "copies_found": ("copy", found[copied >= 0] == found[copied[copied >= 0]]),
            },
            coords=coords,
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        names = [name for name in self.sets if name in PRINTED]
        rows = min(self.rounds, 2) + 1
        table = [PRINTED[name] for name in names]
        if not names:
            return None
        return xr.Dataset(
            {
                "classes": (("set", "round"), [row[:rows] for row in table]),
                "isomorphism_classes": ("set", [row[-1] for row in table]),
            },
            coords={"set": names, "round": np.arange(rows)},
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        reduced = measured.assign(missed=measured.isomorphism_classes - measured.classes)
        if predicted is not None:
            found = measured.sel(set=predicted.set)
            rows = found.classes.sel(round=predicted["round"]) - predicted.classes
            last = found.isomorphism_classes - predicted.isomorphism_classes
            reduced["row_difference"] = rows.rename(set="printed_set", round="row")
            reduced["truth_difference"] = last.rename(set="printed_set")
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        shares = reduced.missed.sel(round=1) / reduced.isomorphism_classes
        statement = "One propagation tells apart all graphs but for a hundredth, in both families"
        missed = {"missed": reduced.missed.sel(round=1).values}
        yield every("almost-all", statement, shares <= 0.01, shown=missed, post_hoc=SIZES)
        if "row_difference" in reduced:
            statement = "Row K of Table A.1 is what K - 1 propagations give, in both families"
            yield agrees("rows", statement, reduced.row_difference, 0, absolute=0, source="Table A.1")
            statement = "The isomorphism classes are those of the last row of Table A.1"
            yield agrees("ground-truth", statement, reduced.truth_difference, 0, absolute=0, source="Table A.1")
        statement = "Without a propagation both families see the number of nodes alone"
        yield every("sizes", statement, reduced.classes.sel(round=0) == reduced.node_counts)
        statement = "No family sees more classes than there are, and neither loses classes with more propagations"
        yield every("bounds", statement, (reduced.missed >= 0) & (reduced.classes.diff("round") >= 0).all("round"))
        yield every("copies", "Shuffled copies are found to be isomorphic to their originals", reduced.copies_found)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Figures:
        names = reduced.set.values.tolist()
        figure, axes = panels(len(names), size=(3.2, 3.2), squeeze=False)
        for axis, name in zip(axes[0], names, strict=True):
            part = reduced.sel(set=name)
            for family, color, shift in zip(FAMILIES, PALETTE, (-0.2, 0.2), strict=False):
                axis.bar(part["round"] + shift, part.classes.sel(family=family), 0.38, color=color, label=family)
            axis.axhline(float(part.isomorphism_classes), color="black", linewidth=1.1, linestyle=(0, (4, 2.5)))
            axis.set(title=f"{name.removeprefix('tu_')}: {int(part.graphs)} graphs", xlabel="propagations")
            axis.set_xticks(part["round"])
        axes[0, 0].set_ylabel("classes of graphs (line: isomorphism)")
        axes[0, 0].legend(loc="lower right", facecolor="white", frameon=True, edgecolor=FAINT)
        return {"graph-classes": figure, "two-graphs": _draw_two()}

    def _random(self, seed: int) -> tuple[GraphBatch, np.ndarray]:
        """Random graphs, and of which one each is a copy; -1 for originals."""
        rng = np.random.default_rng([seed, 7])
        made: list[Graph] = []
        for number in range(self.graphs - self.graphs // 3):
            nodes, each = int(rng.integers(20, 60)), int(rng.integers(2**31))
            if self.family == "regular":
                made.append(random_regular(3, 2 * (nodes // 2), seed=each))
            elif number % 8 == 7:
                made.append(caveman(2 + nodes // 8, 3 + nodes % 4))
            else:
                kind = barabasi_albert(nodes, 2, seed=each) if number % 2 else erdos_renyi(nodes, 0.5, seed=each)
                made.append(kind)
        copied = rng.integers(0, len(made), self.graphs - len(made))
        copies = [made[one].reorder(rng.permutation(made[one].nodes)) for one in copied]
        return batch([*made, *copies]), np.concatenate([np.full(len(made), -1), copied])


def _draw_two() -> Figure:
    """Two graphs with as many nodes, colored by the classes of one propagation: their degrees."""
    pair = [erdos_renyi(11, 0.35, seed=4), barabasi_albert(11, 2, seed=4)]
    figure, axes = panels(2, size=(3.4, 3.4))
    colors = joint_colors(pair, 1)
    for axis, graph, color, title in zip(axes, pair, colors, ("G(n, p)", "Barabási-Albert"), strict=True):
        draw_graph(axis, graph, layout(graph), color, names=graph.degrees.tolist())
        axis.set_title(title)
    figure.suptitle(
        "One propagation gives each node its degree; the multiset of degrees tells graphs apart", fontsize=10
    )
    return figure
