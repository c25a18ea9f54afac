"""Statements of Chapter 2 and Appendix A that do not hold as printed, each with a counter-example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from typing import Annotated, Any

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.drawing import draw_graph, layout
from dynascope.figures import INK, PALETTE, panels
from dynascope.graphs import Graph, batch, color_refinement, erdos_renyi, graph_codes, number_of_classes
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import agrees, below, every, share
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.data import graph_sets
from dynascope.theory.graphs import errata
from dynascope.theory.graphs.degree_codes import (
    degree_codes,
    log2_codes_and_classes,
    switch_edges,
    switches,
    top_degree_code,
)

NUMBERS = (
    "power_graph_example",
    "equivariant_operators",
    "aggregation_construction",
    "printed_walk_formula",
    "printed_class_bound",
    "printed_neighbor",
    "level_vector_lemma",
    "walk_count_construction",
)
"""The functions of `theory.graphs.errata`."""


class GraphErrata(Experiment):
    """Which statements about graph-augmented MLPs do not hold as printed?"""

    id = "graphs.errata"
    source = Source(
        SIMPLE_STRUCTURES,
        "Propositions 2.2, 2.7, A.2, A.3, Lemmas A.4-A.7, Section 2.4, Appendices A.7-A.10, Table A.1",
    )
    cost = {"quick": 2, "full": 4}
    presets = {"quick": {"nodes": (10, 20, 40), "samples": 20, "sets": ()}}
    control = {"nodes": (4,)}
    notes = """The main results, Propositions 2.1, 2.3, 2.4, 2.6 and 2.7, hold. Proposition 2.2 holds for almost all
    pairs of random graphs, whose degrees differ, and not for almost all graphs: two edges ab and a'b' with equal
    degrees at a and a' and at b and b' become ab' and a'b, and no node's degree, nor any neighbor's, changes. In the
    control graphs have 4 nodes, for which these codes suffice. Misprints without consequence for a number: t - 1 for k
    - 1 in (A.15), "each of the two real datasets" where five are used, the order O(m^(k^m)) that drops a factor in the
    exponent, and the last display in the proof of Lemma A.6, whose exponent should be 2^K - 1. The row of Table A.1 is
    shown if a data set is read, which quick does not."""

    nodes: tuple[Annotated[int, Field(ge=3, le=200)], ...] = (10, 20, 40, 80)
    """Sizes of the random graphs G(n, 1/2)."""
    samples: Annotated[int, Field(ge=2, le=1000)] = 100
    sets: tuple[str, ...] = ("tu_IMDBBINARY",)

    def data_sets(self) -> tuple[str, ...]:
        return self.sets

    def measure(self, seed: int) -> xr.DataTree:
        rng = np.random.default_rng([seed, 3])
        drawn = [[erdos_renyi(n, 0.5, seed=int(rng.integers(2**31))) for _ in range(self.samples)] for n in self.nodes]
        degrees = [[tuple(np.sort(graph.degrees).tolist()) for graph in row] for row in drawn]
        parts = {
            "switch": xr.Dataset(
                {
                    "flags": (("nodes", "sample", "flag"), [[_partner(graph) for graph in row] for row in drawn]),
                    "same_degrees": (
                        ("nodes", "pair"),
                        [[one == two for one, two in pairwise(row)] for row in degrees],
                    ),
                },
                coords={"nodes": list(self.nodes), "flag": ["partner", "same top degrees", "told by three rounds"]},
            )
        }
        if self.sets:
            rows = []
            for name in self.sets:
                graphs = graph_sets.load(name).graphs
                once = number_of_classes(graph_codes(graphs, color_refinement(graphs.joined, 1)[1]))
                rows.append([len(np.unique(graphs.sizes)), once])
            parts["rows"] = xr.Dataset({"classes": (("set", "round"), rows)}, coords={"set": list(self.sets)})
        return xr.DataTree.from_dict(parts)

    def predict(self, measured: xr.DataTree) -> xr.DataTree:
        numbers: dict[str, Any] = {name: xr.Dataset(getattr(errata, name)()) for name in NUMBERS}
        codes, classes = log2_codes_and_classes(100)
        return xr.DataTree.from_dict(numbers | {"bits": xr.Dataset({"codes": codes, "classes": classes})})

    def reduce(self, measured: xr.DataTree, predicted: xr.DataTree) -> xr.DataTree:
        parts = {name: part.to_dataset() for name, part in predicted.children.items()}
        parts |= {name: part.to_dataset() for name, part in measured.children.items()}
        return xr.DataTree.from_dict(parts)

    def judge(self, reduced: xr.DataTree) -> Claims:
        parts = {name: part.to_dataset() for name, part in reduced.children.items()}
        flags = parts["switch"].flags.isel(nodes=-1)
        partner, top, told = (flags.sel(flag=name).astype(bool) for name in flags.flag.values)
        statement = (
            "Most graphs of the largest size have a partner, not isomorphic, with the same degrees and neighbors' "
            "degrees, hence with the same D1 and A D^-α 1 for every α; three rounds of refinement tell them apart"
        )
        printed = "in the sense that the fraction of graphs on which such a GA-MLP fails to test isomorphism is [o(1)]"
        counter = share("switch", statement, partner & told, 0.5)
        yield erratum(counter, kind="error", printed=printed, at="Proposition 2.2")
        statement = "The partners have the same code F(G); and there are fewer codes than graphs of 100 nodes (log2)"
        shown = {"bits": [float(parts["bits"].codes), float(parts["bits"].classes)]}
        counter = every("top-degrees", statement, top.where(partner & told), shown=shown)
        printed = "G and G' are isomorphic if and only if F(G) = F(G') as multisets"
        yield erratum(counter, kind="error", printed=printed, at="Lemma A.5")
        statement = (
            "Almost all pairs of random graphs are told apart, by the degrees alone (share of pairs that are not)"
        )
        printed = "can distinguish almost all pairs of non-isomorphic graphs of at most n nodes"
        alike = parts["switch"].same_degrees.isel(nodes=-1).mean()
        yield below("almost-all-pairs", statement, alike, 0.05, source="Proposition 2.2", printed=printed)
        statement = "What is meant is o(1): degrees alone fail to tell apart few pairs of the largest random graphs"
        counter = below("failing-share", statement, parts["switch"].same_degrees.isel(nodes=-1).mean(), 0.5)
        printed = "the fraction of graphs on which such a GA-MLP fails to test isomorphism is 1 - o(1)"
        yield erratum(counter, kind="misprint", printed=printed, at="Proposition 2.2")
        yield from self._operators(parts)
        yield from self._trees(parts)
        if "rows" in parts:
            rows = parts["rows"].classes
            statement = "Row K = 1 is what no round gives, the number of different sizes; one round gives row 2"
            wanted = np.array([[51, 537]])
            counter = agrees("shifted-rows", statement, rows.sel(set=["tu_IMDBBINARY"]), wanted, absolute=0)
            printed = "induced by depth-K GNNs (equivalent to K-iterations of the WL test"
            yield erratum(counter, kind="misprint", printed=printed, at="Table A.1")

    def _operators(self, parts: Mapping[str, xr.Dataset]) -> Claims:
        rings = parts["power_graph_example"]
        statement = "min(A², 1) = A² - I on both graphs and sees no difference; A∘A² and min(A + A², 1) do"
        seen = [rings.remainder == 0, rings.printed == 0, rings.triangles == 1, rings.two_steps == 1]
        printed = "the GA-MLP can distinguish between a hexagon and a pair of triangles, which WL cannot distinguish"
        yield erratum(every("power-graph", statement, _flags(seen)), kind="error", printed=printed, at="Section 2.4")
        swap = parts["equivariant_operators"]
        statement = "Swapping two nodes of a level changes A, and the equivariant operator A(X∘AX) tells the roots of "
        statement += "Figure 2.3 apart: nonlinear operators can see what message passing sees"
        seen = [swap.changed > 0, swap.root_one == 1, swap.root_other == 0]
        printed = "if π is the permutation of a pair of nodes in some V_k for 1 ≤ k ≤ K, then π ⋆ A = A"
        at = "Propositions A.2 and A.3"
        yield erratum(every("equivariant", statement, _flags(seen)), kind="error", printed=printed, at=at)
        formula = parts["printed_walk_formula"]
        statement = "The features of powers are sums over types of walks (difference)"
        yield below("walk-types", statement, parts["printed_walk_formula"].right, 1e-12, source="(2.6)")
        statement = "The last factor is d_k^-β: with it the formula is exact, with d_k, as printed, it is not"
        seen = [formula.printed > 0.1, formula.right < 1e-12]
        printed = "(d_1 ... d_(k-1))^(-(α+β)) d_k φ(x)"
        yield erratum(every("walk-factor", statement, _flags(seen)), kind="misprint", printed=printed, at="(A.15)")
        bound = parts["printed_class_bound"]
        statement = (
            "At m = 2, k = 1 with two features one operator sees more classes than the bound; C(m^k + N, N) holds"
        )
        printed = "upper-bounded by C(m^k + |X|m(k + m - 2)^(m-1) - 1, |X|m(k + m - 2)^(m-1))"
        shown = {"classes": bound.classes, "bound": bound.printed}
        counter = every("class-bound", statement, bound.classes > bound.printed, shown=shown)
        yield erratum(counter, kind="gap", printed=printed, at="Appendix A.7")
        walks = parts["printed_neighbor"]
        statement = "Node 7 is a neighbor of 14: with 13, (A.32) fails at k = 2 and the walk counts differ at k = 4"
        seen = [walks.printed_sum == 2, walks.printed_walks == 4, *map(np.isinf, (walks.right_sum, walks.right_walks))]
        printed = "w_(k+1)(7) = w_k(1) + w_k(13)"
        yield erratum(every("neighbor", statement, _flags(seen)), kind="misprint", printed=printed, at="(A.39)")
        with np.errstate(divide="ignore"):
            infinite = np.isinf(np.float64(0.0) ** -3.0)
        statement = "0^-α is not a number; degrees of neighbors are at least 1, and 0 is not needed"
        printed = "all of which are integers between 0 and n"
        yield erratum(every("zero-degree", statement, infinite), kind="misprint", printed=printed, at="Lemma A.4")

    def _trees(self, parts: Mapping[str, xr.Dataset]) -> Claims:
        trees = parts["aggregation_construction"]
        statement = (
            "At m = 3, K = 3 the proof constructs 256 trees, of which 64 are aggregation trees, fewer than the 128 "
            "claimed: repeating the parent's feature is not repeating what hangs on it. The bound itself holds"
        )
        seen = [trees.constructed == 256, trees.aggregation == 64, trees.aggregation < trees.claimed]
        printed = "each of its node must have its parent's feature equal to one of its children's feature"
        yield erratum(every("aggregation-trees", statement, _flags(seen)), kind="gap", printed=printed, at="Lemma A.6")
        levels = parts["level_vector_lemma"]
        statement = "No tree with q_1 = 0 has both features below its root, as (A.22) wants; 1 ≤ q_1 ≤ m - 1 is needed"
        printed = "For the base cases, it is obvious that"
        counter = every("base-case", statement, levels.base_case == 0)
        yield erratum(counter, kind="gap", printed=printed, at="Lemma A.7")
        statement = "At m = 2 no level vector is admissible; m ≥ 3, as Proposition 2.6 assumes, is needed"
        counter = every("binary-trees", statement, levels.binary_vectors == 0)
        yield erratum(counter, kind="misprint", printed="Since m ≥ 2 by assumption", at="Appendix A.8")
        statement = "Inner nodes of the trees have degree m + 1: m is the number of children there"
        counter = every("inner-degree", statement, levels.inner_degree == 4)
        yield erratum(counter, kind="gap", printed="all nodes have degree at most m", at="Section 2.5")
        walk = parts["walk_count_construction"]
        statement = "It needs two features and m ≥ 3: with one feature f_k is A^k 1, which powers of A compute, and "
        statement += "with m = 2 the construction gives a single class"
        counter = every("two-features", statement, _flags([walk.one_feature == 1, walk.binary_choices == 1]))
        yield erratum(counter, kind="gap", printed="For any sequence of node features", at="Proposition 2.7")
        statement = "f_k also counts walks that turn back: at m = 3, k = 2 its values are 1 to 4, not 0 to 3"
        counter = every("turning-back", statement, _flags([walk.least == 1, walk.most == 4]))
        printed = "equals the number of node of feature x_k among the set of m^(k-1) nodes"
        yield erratum(counter, kind="gap", printed=printed, at="Appendix A.9")
        statement = "There is one choice more, (m - 2)m^(k-1) + 1: at m = 3, k = 2 there are 4"
        printed = "there are (m - 2)m^(k-1) choices of q_k"
        counter = every("one-more", statement, walk.choices == 4)
        yield erratum(counter, kind="misprint", printed=printed, at="Appendix A.9")

    def draw(self, measured: xr.DataTree, predicted: xr.DataTree, reduced: xr.DataTree) -> Figures:
        graph, made = _example()
        changed = {tuple(edge) for edge in graph.edges.tolist()} ^ {tuple(edge) for edge in made.edges.tolist()}
        ends = sorted({node for edge in changed for node in edge})
        figure, axes = panels(3, size=(3.8, 3.7))
        places = layout(graph)
        for axis, each, title in zip(axes, (graph, made), ("A random graph", "Two edges switched"), strict=False):
            draw_graph(axis, each, places, each.degrees - each.degrees.min(), names=each.degrees.tolist(), ringed=ends)
            for i, j in changed & {tuple(edge) for edge in each.edges.tolist()}:
                axis.plot(*places[[i, j]].T, color=INK, linewidth=2.2, zorder=1.5)
            axis.set_title(title)
        flags = reduced["switch"].to_dataset().flags.mean("sample")
        axes[2].plot(flags.nodes, flags.sel(flag="partner"), "o-", color=PALETTE[0])
        axes[2].set(
            xlabel="nodes n", ylabel="share of graphs G(n, 1/2)", ylim=(-0.03, 1.03), title="Graphs with such a partner"
        )
        said = "Numbers and colors are degrees: every node keeps its own and its neighbors', yet the graphs differ"
        figure.suptitle(said, color=INK, fontsize=10)
        return {"errata": figure}


def _flags(conditions: Iterable[Any]) -> np.ndarray:
    return np.array([bool(condition) for condition in conditions])


def _partner(graph: Graph) -> list[bool]:
    """Whether a switch gives a graph with the same degree codes that refinement tells apart, whether its code F(G) is
    the same, and whether three rounds tell it apart."""
    for switch in islice(switches(graph), 10):
        other = switch_edges(graph, switch)
        pair = batch([graph, other])
        first, second = graph_codes(pair, degree_codes(pair.joined))
        third, fourth = graph_codes(pair, color_refinement(pair.joined, 3)[-1])
        if first == second and third != fourth:
            return [True, top_degree_code(graph) == top_degree_code(other), True]
    return [False, False, False]


def _example() -> tuple[Graph, Graph]:
    """A small random graph without isolated nodes, and its partner."""
    for seed in range(1000):
        graph = erdos_renyi(10, 0.4, seed=seed)
        if graph.degrees.min() > 0 and _partner(graph)[0]:
            for switch in switches(graph):
                made = switch_edges(graph, switch)
                pair = batch([graph, made])
                third, fourth = graph_codes(pair, color_refinement(pair.joined, 3)[-1])
                if third != fourth:
                    return graph, made
    raise AssertionError("no example among a thousand graphs")
