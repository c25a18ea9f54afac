"""Proposition 2.2 and its companion: all graphs of up to seven nodes, and random graphs."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from math import factorial
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.drawing import draw_graph, joint_colors, layout
from dynascope.figures import FAINT, INK, PALETTE, panels
from dynascope.graphs import (
    Graph,
    GraphBatch,
    adjacency,
    batch,
    color_refinement,
    erdos_renyi,
    from_networkx,
    graph_codes,
    normalized_adjacency,
    number_of_classes,
    operator_classes,
    refines,
    with_self_loops,
)
from dynascope.lab.criteria import agrees, every, falling
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.theory.graphs.degree_codes import degree_codes, injective_above, power_sums

ALL = {4: 11, 5: 34, 6: 156, 7: 1044}
"""Graphs up to isomorphism."""
EXPONENTS = {3: 3, 4: 5, 5: 8, 6: 10}
"""Integers above the threshold of Lemma A.4."""
SHAPES = ((0.0, 0.0), (0.5, 0.5), (1.0, 0.0), (0.0, 1.0))
DEGREES = "D and A D^-α"


class SmallGraphs(Experiment):
    """How many of all graphs with up to seven nodes does each family tell apart?"""

    id = "graphs.small-graphs"
    source = Source(SIMPLE_STRUCTURES, "Proposition 2.2, Lemma A.4, Section 2.4")
    cost = {"quick": 5, "full": 6}
    presets = {"quick": {"samples": 100}}
    control = {"operator": "normalized"}
    notes = """All graphs are from networkx's atlas. The operators D and A D^-α see each node's degree with the multiset
    of its neighbors' degrees, which is compared itself, since the power underflows. A graph is identified if no other
    is in its class; shares are of labeled graphs, each isomorphism class counted with its number of labelings. The
    control takes powers of D^-1/2 A D^-1/2 instead of powers of A."""

    sizes: tuple[Literal[4, 5, 6, 7], ...] = (4, 5, 6, 7)
    operator: Literal["adjacency", "normalized"] = "adjacency"
    samples: Annotated[int, Field(ge=10, le=10**4)] = 300
    """Random graphs G(n, 1/2) of each size."""
    random_nodes: tuple[int, ...] = (10, 20, 40, 80)
    share_nodes: tuple[Literal[4, 5, 6, 7], ...] = (6, 7)
    """Sizes for which the share of identified labeled graphs is counted."""

    def measure(self, seed: int) -> xr.Dataset:
        atlas = {n: _atlas(n) for n in self.sizes}
        families = {
            "refinement": None,
            "powers": adjacency if self.operator == "adjacency" else normalized_adjacency,
            "normalized": normalized_adjacency,
            "self-loops": with_self_loops,
        }
        depths = [1, 2, 3, max(self.sizes)]
        counts = [
            [[number_of_classes(_codes(graphs, made, min(k, n))) for k in depths] for made in families.values()]
            for n, graphs in atlas.items()
        ]
        degrees = [number_of_classes(_degree_classes(graphs)) for graphs in atlas.values()]
        shares = [_shares(_atlas(n)) for n in self.share_nodes]
        rng = np.random.default_rng([seed, 5])
        distinct = [
            [_all_different(erdos_renyi(n, 0.5, seed=int(rng.integers(2**31)))) for _ in range(self.samples)]
            for n in self.random_nodes
        ]
        finer, coarser = _refinement(erdos_renyi(500, 4 / 500, seed=seed))
        exact = [[len(sums := power_sums(n, a)), len(set(sums))] for n, a in EXPONENTS.items()]
        return xr.Dataset(
            {
                "classes": (("nodes", "family", "round"), counts),
                "degree_classes": ("nodes", degrees),
                "identified": (("share_nodes", "code"), shares),
                "distinct": (("random_nodes", "sample"), distinct),
                "refined_next": (("shape", "order"), finer),
                "refined_same": (("shape", "order"), coarser),
                "power_sums": (("n", "count"), exact),
            },
            coords={
                "nodes": list(self.sizes),
                "family": list(families),
                "round": ["1", "2", "3", "n"],
                "share_nodes": list(self.share_nodes),
                "code": [DEGREES, "A, K=3", "normalized, K=2"],
                "random_nodes": list(self.random_nodes),
                "n": list(EXPONENTS),
                "count": ["multisets", "sums"],
            },
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The isomorphism classes, and the thresholds of Lemma A.4."""
        return xr.Dataset(
            {
                "isomorphism_classes": ("nodes", [ALL[n] for n in self.sizes]),
                "threshold": ("n", [injective_above(n) for n in EXPONENTS]),
            },
            coords={"nodes": list(self.sizes), "n": list(EXPONENTS)},
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        kept = measured.drop_vars("distinct").assign(distinct_share=measured.distinct.mean("sample"))
        known = xr.DataArray([TABLE[n] for n in self.sizes], dims=("nodes", "column"))
        columns = [("refinement", r) for r in ("1", "2", "3", "n")] + [("powers", r) for r in ("1", "2", "3", "n")]
        columns += [(family, r) for family in ("normalized", "self-loops") for r in ("2", "n")]
        found = xr.concat([kept.classes.sel(family=f, round=r, drop=True) for f, r in columns], "column")
        table = xr.concat([found, kept.degree_classes.expand_dims("column")], "column").transpose("nodes", "column")
        return kept.assign(predicted.data_vars).assign(table=table, known_table=known)

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "Powers of A tell apart as many graphs as color refinement does, at every depth"
        equal = reduced.classes.sel(family="powers") == reduced.classes.sel(family="refinement")
        yield every("as-many", statement, equal)
        statement = "Counts of classes of all graphs, by family and depth, agree with an independent enumeration"
        yield agrees("table", statement, reduced.table, reduced.known_table, absolute=0)
        statement = "Color refinement misses some graphs from 6 nodes on, and no family sees more than there are"
        last = reduced.classes.sel(round="n")
        missed = last.sel(family="refinement") < reduced.isomorphism_classes
        within = last.max("family") <= reduced.isomorphism_classes
        yield every("some-missed", statement, within & (missed == (reduced.nodes >= 6)))
        statement = "The sums Σ u^-α tell all multisets apart at an integer α above the threshold"
        alone = reduced.power_sums.sel(count="sums") == reduced.power_sums.sel(count="multisets")
        above_it = np.array(list(EXPONENTS.values())) > reduced.threshold
        yield every("injective", statement, alone & above_it, source="Lemma A.4")
        known = xr.DataArray([SHARES[n] for n in self.share_nodes], dims=("share_nodes", "code"))
        statement = "The shares of labeled graphs that D and A D^-α, A, and D^-1/2 A D^-1/2 identify"
        yield agrees("identified", statement, reduced.identified, known, absolute=0.0006)
        if len(self.share_nodes) > 1:
            statement = (
                "From 6 to 7 nodes the share that D and A D^-α identify falls, where Proposition 2.2 says it grows"
            )
            yield falling("falls", statement, reduced.identified.sel(code=DEGREES), along="share_nodes")
        statement = (
            "In G(n, 1/2) all nodes have codes (degree, neighbors' degrees) of their own more often, the larger n is"
        )
        yield every("distinct-codes", statement, reduced.distinct_share.diff("random_nodes") >= 0)
        statement = "K + 1 rounds of refinement determine the classes of I, ω, ..., ω^K for ω = D^-α A D^-β"
        yield every("refinement", statement, reduced.refined_next, source="Section 2.4, Proposition 2.6")
        statement = "K rounds do for A and D^-1 A, and do not for D^-1/2 A D^-1/2 and A D^-1 at K = 1"
        same = reduced.refined_same
        expected = [same[0].all(), same[2].all(), ~same[1, 0], ~same[3, 0]]
        yield every("one-more-round", statement, np.array([bool(each) for each in expected]))

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        n = max(self.sizes)
        figure, (table, share) = panels(2, size=(4.6, 3.6))
        part, total = reduced.sel(nodes=n), float(reduced.isomorphism_classes.sel(nodes=n))
        for family, color in zip(part.family.values, PALETTE, strict=True):
            wide = {"linewidth": 5, "alpha": 0.4} if family == "refinement" else {}
            table.plot(range(4), part.classes.sel(family=family), "o-", color=color, label=str(family), **wide)
        table.axhline(float(part.degree_classes), color=FAINT, label=DEGREES)
        table.axhline(total, color="black", linestyle=(0, (4, 2.5)), linewidth=1.1, label="isomorphism classes")
        table.set(xlabel="propagations", ylabel="classes", title=f"All graphs with {n} nodes")
        table.set_xticks(range(4), ["1", "2", "3", str(n)])
        table.legend()
        share.semilogx(reduced.random_nodes, reduced.distinct_share, "o-", color=PALETTE[1])
        share.set(xlabel="nodes n", ylabel="share of graphs G(n, 1/2)", title="All nodes have codes of their own")
        share.set_xticks(self.random_nodes, map(str, self.random_nodes))
        share.minorticks_off()
        return {"small-graphs": figure, "missed": _draw_missed()}


TABLE = {
    4: (11, 11, 11, 11, 11, 11, 11, 11, 9, 9, 6, 6, 11),
    5: (31, 34, 34, 34, 31, 34, 34, 34, 30, 30, 25, 25, 34),
    6: (102, 152, 152, 152, 102, 152, 152, 152, 141, 141, 130, 130, 152),
    7: (342, 952, 1018, 1022, 342, 952, 1018, 1022, 999, 1003, 961, 967, 952),
}
"""Refinement and powers of A at K = 1, 2, 3, n; normalized and with self-loops at K = 2, n; D and A D^-α."""
SHARES = {6: (0.979, 0.979, 0.966), 7: (0.805, 0.971, 0.969)}


def _atlas(n: int) -> GraphBatch:
    from networkx import graph_atlas_g

    return batch([from_networkx(graph) for graph in graph_atlas_g() if graph.number_of_nodes() == n])


def _codes(graphs: GraphBatch, operator: Any, depth: int) -> np.ndarray:
    if operator is None:
        return graph_codes(graphs, color_refinement(graphs.joined, depth)[-1])
    return graph_codes(graphs, operator_classes(graphs.joined, depth, operator=operator)[-1])


def _degree_classes(graphs: GraphBatch) -> np.ndarray:
    return graph_codes(graphs, degree_codes(graphs.joined))


def _shares(graphs: GraphBatch) -> list[float]:
    """The share of labeled graphs whose isomorphism class is alone in its class: of each code."""
    n = int(graphs.sizes[0])
    orders = np.array(list(permutations(range(n))))
    weights = []
    for graph in graphs:
        dense = adjacency(graph).toarray().astype(bool)
        same = (dense[orders[:, :, None], orders[:, None, :]] == dense).all(axis=(1, 2))
        weights.append(factorial(n) // int(same.sum()))
    found = []
    for codes in (_degree_classes(graphs), _codes(graphs, adjacency, 3), _codes(graphs, normalized_adjacency, 2)):
        alone = np.bincount(codes)[codes] == 1
        found.append(float(np.sum(np.array(weights)[alone]) / 2 ** (n * (n - 1) // 2)))
    return found


def _all_different(graph: Graph) -> bool:
    return number_of_classes(degree_codes(graph)) == graph.nodes


def _refinement(graph: Graph) -> tuple[list[list[bool]], list[list[bool]]]:
    """Whether K + 1 rounds, and whether K rounds, determine the classes of powers of D^-α A D^-β up to K = 1, 2, 3."""
    colors = color_refinement(graph, 4)
    found = [operator_classes(graph, 3, operator=partial(normalized_adjacency, alpha=a, beta=b)) for a, b in SHAPES]
    more = [[refines(colors[k + 1], classes[k]) for k in (1, 2, 3)] for classes in found]
    return more, [[refines(colors[k], classes[k]) for k in (1, 2, 3)] for classes in found]


def _draw_missed() -> Figure:
    """The two graphs of 6 nodes, colored after many rounds, that refinement never tells apart."""
    graphs = _atlas(6)
    codes = _codes(graphs, None, 6)
    shared = np.flatnonzero(np.bincount(codes) > 1)
    pairs = [np.flatnonzero(codes == one)[:2] for one in shared]
    connected = sorted(pairs, key=lambda pair: -len(graphs[int(pair[0])].edges))[:3]
    figure, axes = panels(2 * len(connected), size=(2.3, 2.4))
    for number, pair in enumerate(connected):
        both = [graphs[int(one)] for one in pair]
        for axis, graph, colors in zip(axes[2 * number :], both, joint_colors(both, 6), strict=False):
            draw_graph(axis, graph, layout(graph), colors)
    figure.suptitle("Pairs of graphs with 6 nodes that no number of rounds tells apart", color=INK, fontsize=10.5)
    return figure
