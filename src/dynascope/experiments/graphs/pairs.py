"""Figures 2.1, 2.2, 2.3 and A.1: pairs of graphs that one family distinguishes and the other does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope import graphs
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.drawing import draw_graph, joint_colors, layout, tree_layout
from dynascope.figures import INK, panels
from dynascope.graphs import Graph, Pair, batch, color_refinement, graph_codes, operator_classes, powers
from dynascope.lab.criteria import below, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source

PAIRS: dict[str, Callable[[], Pair]] = {
    "walk twins": graphs.walk_twins,
    "regular twins": graphs.regular_twins,
    "cycle twins": graphs.cycle_twins,
    "tree twins": graphs.tree_twins,
}
ALPHAS = (0.0, 0.3, 0.5, 1.0)
OPERATORS: dict[str, Callable[[Graph], Any]] = {
    "A": graphs.adjacency,
    **{f"D^-{a:g} A D^-{1 - a:g}": partial(graphs.normalized_adjacency, alpha=a, beta=1 - a) for a in ALPHAS},
    "with self-loops": graphs.with_self_loops,
    "min(A², 1)": graphs.power_graph,
    "min(A + A², 1)": graphs.two_step_graph,
    "A∘A²": graphs.triangles,
}
MESSAGES = "message passing"
MAPS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (np.tanh, np.square, np.abs, lambda x: np.minimum(x, 1))
"""Entrywise maps that operators are composed of."""
SUMS = (((1,), (2,)), ((3, 9), (6, 8)), ((5, 7), (4, 10)))
"""Lemma A.9, (A.30) to (A.32): sums of walk counts over nodes of the first graph that agree; counted from 1."""


class Pairs(Experiment):
    """Which pairs of graphs does message passing tell apart, and which do fixed operators?"""

    id = "graphs.pairs"
    source = Source(SIMPLE_STRUCTURES, "Figures 2.1, 2.2, 2.3, A.1, Propositions 2.1, 2.6, A.1, Lemma A.9")
    cost = {"quick": 2, "full": 2}
    presets = {"quick": {"compositions": 50}}
    control = {"copies": True}
    notes = """Graphs are distinguished by the multiset of their nodes' classes, the trees of Figure 2.3 by the class
    of their roots. Walk twins are the graphs of Figures 2.1 and A.1; regular twins are a ring of 6 and the complete
    bipartite graph of 3 and 3; cycle twins a ring of 6 and two of 3, like Figure 2.2 in that all aggregation trees are
    the same. The control compares each graph with a copy of itself whose nodes are shuffled. Quick tries fewer random
    operators."""

    orders: Annotated[int, Field(ge=2, le=200)] = 59
    """The highest power of A, in exact integers."""
    depth: Annotated[int, Field(ge=2, le=20)] = 5
    compositions: Annotated[int, Field(ge=1, le=10**4)] = 200
    """Random operators of the structure alone that are tried on the trees."""
    copies: bool = False

    def measure(self, seed: int) -> xr.Dataset:
        rng = np.random.default_rng([seed, 11])
        pairs = {name: self._pair(make(), rng) for name, make in PAIRS.items()}
        apart = [
            [_apart(pair, name == "tree twins", family, self.depth) for family in (MESSAGES, *OPERATORS)]
            for name, pair in pairs.items()
        ]
        walks = [
            powers(graphs.adjacency(each), np.ones(each.nodes, np.int64), self.orders)[:, :, 0]
            for each in graphs.walk_twins()
        ]
        sums = [
            [sum(row[i - 1] for i in left) == sum(row[i - 1] for i in right) for left, right in SUMS]
            for row in walks[0].tolist()
        ]
        trees = pairs["tree twins"]
        roots = np.array([_random_operator(trees, np.random.default_rng([seed, n])) for n in range(self.compositions)])
        moved = [_moved(pairs["walk twins"].one, np.random.default_rng([seed, 5, n])) for n in range(self.compositions)]
        same = batch(list(graphs.same_tree_twins()))
        roots_of = [row[same.offsets[:-1]] for row in color_refinement(same.joined, self.depth)]
        spectra = [np.linalg.eigvalsh(graphs.to_scipy(each).toarray().astype(float)) for each in pairs["walk twins"]]
        return xr.Dataset(
            {
                "apart": (("pair", "family", "depth"), apart),
                "same_walks": ("order", (walks[0] == walks[1]).all(axis=1).astype(bool)),
                "lemma": (("order", "equality"), sums),
                "root_difference": ("composition", np.abs(roots[:, 0] - roots[:, 1])),
                "root_size": ("composition", roots[:, 2]),
                "moved": ("composition", np.array(moved)),
                "same_trees": ("depth", [bool(one == other) for one, other in roots_of]),
                "spectrum_difference": np.abs(spectra[0] - spectra[1]).max(),
                "walk_counts": ("tree", [_walks(tree) for tree in graphs.tree_twins()]),
            },
            coords={
                "pair": list(PAIRS),
                "family": [MESSAGES, *OPERATORS],
                "depth": np.arange(self.depth + 1),
                "order": np.arange(self.orders + 1),
            },
        )

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        since = measured.apart.argmax("depth").where(measured.apart.any("depth"), np.inf)
        return measured.assign(since=since, relative_root=measured.root_difference / measured.root_size)

    def judge(self, reduced: xr.Dataset) -> Claims:
        since = reduced.since
        told = since.sel(family=MESSAGES)
        statement = "Two rounds of color refinement tell the walk twins, the regular twins and the tree twins apart"
        yield every("refinement-sees", statement, told.sel(pair=["walk twins", "regular twins", "tree twins"]) <= 2)
        statement = "One round does not tell the walk twins apart: two are needed"
        yield every("two-rounds", statement, told.sel(pair="walk twins") == 2, source="Proposition 2.1")
        statement = "The walk twins have as many walks of every length from each node: no power of A tells them apart"
        yield every("walks", statement, reduced.same_walks, cases=self.orders + 1, source="Lemma A.9")
        statement = "The three equalities of Lemma A.9 hold for every length"
        yield every("lemma", statement, reduced.lemma, source="Lemma A.9")
        statement = "Powers of A see nothing on the walk twins, averaging operators nothing on the regular twins"
        averaging = [name for name in OPERATORS if name.startswith("D^")]
        blind = [np.isinf(since.sel(pair="walk twins", family="A"))]
        blind += [np.isinf(since.sel(pair="regular twins", family=name)) for name in averaging]
        yield every("operators-blind", statement, blind, source="Proposition 2.1")
        statement = "Operators of the structure alone give the roots of the tree twins the same features"
        blind = np.isinf(since.sel(pair="tree twins", family=list(OPERATORS)))
        yield every("trees-blind", statement, blind, source="Proposition 2.6")
        statement = "So do random compositions of D^a A D^b, shifts and entrywise tanh: relative difference"
        scale = "The difference is divided by the sum of the terms' sizes: the feature itself may cancel to nearly 0."
        yield below(
            "random-operators", statement, reduced.relative_root, 1e-12, source="Proposition 2.6", post_hoc=scale
        )
        statement = (
            "Renumbered nodes renumber m(A) X, for m of entrywise maps and matrix products (relative difference)"
        )
        printed = r"then $\omega[A]$ is an equivariant graph operator"
        yield below("equivariance", statement, reduced.moved, 1e-12, source="Proposition A.1", printed=printed)
        statement = "The roots of a ring of 3 and of a ring of 6 have the same aggregation tree, at every depth"
        yield every("same-trees", statement, reduced.same_trees, source="Figure 2.2")
        statement = "The trees differ in the walks through two ones: one has 1, the other none"
        yield every("tree-walks", statement, reduced.walk_counts.values == [1, 0], source="Figure 2.3")
        statement = "No number of rounds tells a ring of 6 from two rings of 3; A∘A² and min(A + A², 1) do at once"
        rings = since.sel(pair="cycle twins")
        seen = [np.isinf(rings.sel(family=MESSAGES)), *(rings.sel(family=["A∘A²", "min(A + A², 1)"]).values == 1)]
        yield every("beyond-refinement", statement, seen, source="Section 2.4")

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(4, 2, size=(3.2, 3.3))
        for column, (name, make) in enumerate(PAIRS.items()):
            pair, trees = make(), name == "tree twins"
            colors = [graph.features[:, 0] for graph in pair if graph.features is not None]
            colors = colors if trees else joint_colors(pair, 2)
            for row, graph in enumerate(pair):
                places = tree_layout(graph) if trees else layout(graph)
                names = colors[row].tolist() if trees else range(1, graph.nodes + 1)
                draw_graph(axes[row, column], graph, places, colors[row], names=names)
            since = reduced.since.sel(pair=name, family=MESSAGES)
            said = f"told apart after {int(since)} rounds" if np.isfinite(since) else "never told apart"
            axes[0, column].set_title(f"{name.capitalize()}\n{said}".replace("1 rounds", "1 round"))
        figure.suptitle("Colors: two rounds of refinement (trees: features)", color=INK, fontsize=10)
        return {"pairs": figure}

    def _pair(self, pair: Pair, rng: np.random.Generator) -> Pair:
        if not self.copies:
            return pair
        rest = 1 + rng.permutation(pair.one.nodes - 1)
        return Pair(pair.one, pair.one.reorder(np.concatenate([[0], rest])))


def _apart(pair: Pair, rooted: bool, family: str, depth: int) -> list[bool]:
    """Whether the two are told apart, for each depth."""
    joined = batch(list(pair))
    if family == MESSAGES:
        classes = color_refinement(joined.joined, depth)
    else:
        classes = operator_classes(joined.joined, depth, operator=OPERATORS[family])
    if rooted:
        return [bool(row[0] != row[joined.offsets[1]]) for row in classes]
    codes = [graph_codes(joined, row) for row in classes]
    return [bool(first != second) for first, second in codes]


def _random_operator(pair: Pair, rng: np.random.Generator) -> list[float]:
    """The features of the two roots under one random composition of D^a A D^b, shifts and entrywise tanh; and the sum
    of the sizes of the terms at a root."""
    matrix = [np.eye(graph.nodes) for graph in pair]
    for _ in range(int(rng.integers(1, 5))):
        a, b, shift, bent = *rng.uniform(-1, 1, 3), rng.random() < 0.4
        steps = [
            graphs.normalized_adjacency(graph, alpha=a, beta=b).toarray() + shift * np.eye(graph.nodes)
            for graph in pair
        ]
        matrix = [step @ before for step, before in zip(steps, matrix, strict=True)]
        matrix = [np.tanh(each) for each in matrix] if bent else matrix
    sums = [each @ graph.features for each, graph in zip(matrix, pair, strict=True) if graph.features is not None]
    return [float(sums[0][0, 0]), float(sums[1][0, 0]), float(np.abs(matrix[0][0]).sum())]


def _moved(graph: Graph, rng: np.random.Generator) -> float:
    """The difference of a random composition m of entrywise maps and products of A from m with the nodes renumbered,
    relative to the sizes of the terms."""
    order, first = rng.permutation(graph.nodes), graphs.to_scipy(graph).toarray().astype(float)
    matrices = [first, first[np.ix_(order, order)]]
    made = matrices
    for _ in range(int(rng.integers(1, 6))):
        step = int(rng.integers(len(MAPS) + 1))
        if step < len(MAPS):
            made = [MAPS[step](each) for each in made]
        else:
            made = [each @ matrix / graph.nodes for each, matrix in zip(made, matrices, strict=True)]
    features = rng.normal(size=(graph.nodes, 2))
    found, moved = made[0] @ features, made[1] @ features[order]
    size = (np.abs(made[0]) @ np.abs(features)).max()
    return float(np.abs(found[order] - moved).max() / max(size, 1e-300))


def _walks(tree: Graph) -> int:
    assert tree.features is not None
    return int(graphs.walk_counts(tree, tree.features[:, 0], (1, 1), root=False)[0])
