"""Propositions 2.3 and 2.4: the growth of the number of classes of rooted graphs with the depth."""

from __future__ import annotations

from math import log10
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.drawing import draw_graph, tree_layout
from dynascope.figures import INK, PALETTE, THEORY, panels
from dynascope.graphs import Graph, GraphBatch, ball, color_refinement, full_tree, number_of_classes, operator_classes
from dynascope.lab.criteria import above, agrees, below, every, rising
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.theory.graphs import class_bounds, tree_counts

FAMILIES = ("message passing", "operators")
COUNTS = {
    "tree": (tree_counts.full_trees, tree_counts.operator_classes_of_trees),
    "ball": (tree_counts.aggregation_trees, tree_counts.operator_classes_of_balls),
}
"""Classes of message passing and of operators: full m-ary trees, and balls whose inner nodes have degree m."""
DEEP = np.arange(2, 9)
"""Depths at which exact counts show how they grow."""
BOUNDED = np.arange(1, 25)
"""Depths at which the bounds are compared."""


class ClassGrowth(Experiment):
    """How fast does the number of classes of rooted graphs grow with the depth?"""

    id = "graphs.class-growth"
    source = Source(SIMPLE_STRUCTURES, "Propositions 2.3, 2.4, Corollary 2.5, Lemma A.6, Appendices A.6, A.7")
    cost = {"quick": 2, "full": 12}
    presets = {"quick": {"largest": 13}}
    control = {"features": 1}
    notes = """All labelings of a tree with the features 0 and 1 are made, and the classes of their roots are counted by
    refinement and by powers of A; the theory gives the same counts without making them. `largest` is the largest number
    of nodes of a tree whose labelings are all made. In a ball every inner node has degree m: its classes are those of
    aggregation trees. In the control there is one feature, and all trees of a shape are in one class."""

    features: Literal[1, 2] = 2
    shapes: tuple[tuple[str, int, int], ...] = (
        ("tree", 2, 1),
        ("tree", 2, 2),
        ("tree", 2, 3),
        ("tree", 3, 1),
        ("tree", 3, 2),
        ("ball", 2, 2),
        ("ball", 2, 3),
        ("ball", 3, 1),
        ("ball", 3, 2),
        ("ball", 4, 1),
        ("ball", 4, 2),
    )
    """Kind, m and depth."""
    largest: Annotated[int, Field(ge=4, le=18)] = 17
    depths: Annotated[int, Field(ge=2, le=5)] = 4
    """The largest depth of the exact counts."""

    def measure(self, seed: int) -> xr.Dataset:
        found: dict[str, list[int]] = {}
        for kind, m, depth in self.shapes:
            tree = full_tree(m, depth) if kind == "tree" else ball(m, depth)
            if tree.nodes <= self.largest:
                found[f"{kind} m={m} K={depth}"] = _root_classes(tree, self.features, depth)
        return xr.Dataset(
            {"classes": (("shape", "family"), list(found.values()))},
            coords={"shape": list(found), "family": list(FAMILIES)},
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        wanted = {f"{kind} m={m} K={depth}": (kind, m, depth) for kind, m, depth in self.shapes}
        rows = [wanted[name] for name in measured["shape"].values.tolist()]
        counts = [[self._exact(kind, family, m, k) for family in FAMILIES] for kind, m, k in rows]
        depths, degrees = np.arange(1, self.depths + 1), np.array([2, 3, 4])
        exact = [
            [
                [[_log10(self._exact(kind, family, m, k)) for k in depths.tolist()] for m in degrees.tolist()]
                for family in FAMILIES
            ]
            for kind in COUNTS
        ]
        bounds = {
            "lower_bound": [class_bounds.log10_message_passing(3, k) for k in BOUNDED.tolist()],
            "upper_bound": [class_bounds.log10_operators(3, k) for k in BOUNDED.tolist()],
        }
        deep = [
            [[_log10(self._exact("ball", family, m, k)) for k in DEEP.tolist()] for m in degrees[1:].tolist()]
            for family in FAMILIES
        ]
        return xr.Dataset(
            {
                "classes": (("shape", "family"), counts),
                "log10_deep": (("family", "degree", "deep"), deep),
                "log10_exact": (("kind", "family", "m", "depth"), exact),
                **{name: ("bound_depth", values) for name, values in bounds.items()},
                "overtakes": ("types", [class_bounds.overtaking_depth(3, 2, exact) for exact in (False, True)]),
            },
            coords={
                "shape": measured["shape"],
                "family": list(FAMILIES),
                "kind": list(COUNTS),
                "m": degrees,
                "degree": degrees[1:],
                "deep": DEEP,
                "depth": depths,
                "bound_depth": BOUNDED,
                "types": ["bound", "exact"],
            },
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        trees = predicted.log10_exact
        lemma = np.array(
            [[class_bounds.log10_message_passing(m, k) for k in trees.depth.values.tolist()] for m in (3, 4)]
        )
        upper = np.array([[class_bounds.log10_operators(m, k) for k in trees.depth.values.tolist()] for m in (2, 3, 4)])
        seen, limited = (trees.sel(kind="ball", family=name) for name in FAMILIES)
        deep = seen.sel(m=[3, 4]).rename(m="degree")
        logs = np.log(np.maximum(predicted.log10_deep, 1e-9))
        powers = logs.diff("deep") / np.log(predicted.deep).diff("deep")
        return predicted.drop_vars("classes").assign(
            power=powers.rename(deep="interval"),
            classes=measured.classes,
            predicted_classes=predicted.classes,
            excess=measured.classes.sel(family=FAMILIES[0]) / measured.classes.sel(family=FAMILIES[1]),
            above_lemma=deep - xr.DataArray(lemma, dims=("degree", "depth")),
            below_bound=xr.DataArray(upper + np.log10(2), dims=("m", "depth")) - limited,
            doubling=np.log2(np.maximum(deep, 1e-9)).diff("depth").rename(depth="level"),
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        deep = [not name.endswith("K=1") for name in reduced["shape"].values.tolist()]
        statement = "From depth 2 on message passing sees more classes of rooted trees than operators of the structure"
        yield above("more-classes", statement, reduced.excess[deep], 1.0)
        statement = "Counting all labelings gives the theory's numbers of classes, for both families"
        yield agrees("exact-counts", statement, reduced.classes, reduced.predicted_classes, absolute=0)
        statement = "At depth 1 both families see the same classes"
        yield agrees("equal-at-one", statement, reduced.excess[np.logical_not(deep)], 1, absolute=0)
        statement = "There are at least (m - 1)^(2^K - 1) aggregation trees, m = 3 and 4 (log10 of the ratio)"
        yield above("lemma", statement, reduced.above_lemma, -1e-9, source="Lemma A.6")
        statement = "The classes of operators are at most as many as the bound of Proposition 2.4 (log10 of the ratio)"
        yield above("upper-bound", statement, reduced.below_bound, -1e-9, source="Proposition 2.4")
        statement = (
            "The logarithm of the number of aggregation trees more than doubles with each level (log2 of the ratio)"
        )
        yield above("doubly-exponential", statement, reduced.doubling, 1.0, source="Proposition 2.3")
        statement = "The ratio of the two numbers of classes rises with the depth, m = 3 and 4"
        ratio = reduced.log10_exact.sel(family=FAMILIES[0]) - reduced.log10_exact.sel(family=FAMILIES[1])
        yield rising("gap-grows", statement, ratio.sel(m=[3, 4]), along="depth")
        statement = (
            "The VC dimension of all functions of the classes is their number. That of message passing grows faster "
        )
        statement += "than the exponential of any power of K: the local power rises with K, m = 3 and 4"
        printed = "The VC dimension of all GNNs of K layers ... grows at least doubly-exponentially in K"
        power, place = reduced.power, "Corollary 2.5"
        messages, operators = (power.sel(family=name) for name in FAMILIES)
        yield rising("vc-of-messages", statement, messages, along="interval", source=place, printed=printed)
        statement = (
            "That of operators grows like the exponential of a power of K, at most the second (largest local power)"
        )
        printed = "the VC dimension of all GA-MLPs ... is at most poly-exponential in K"
        yield below("vc-of-operators", statement, operators, 2, source=place, printed=printed)
        statement = "The two bounds of the document cross late, at m = 3: depth 18, and 16 with exact walk types"
        yield every("bounds-cross", statement, reduced.overtakes.values == [18, 16], source="Corollary 2.5")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (trees, bounds) = panels(2, size=(4.6, 3.8))
        for m, style in ((2, ":"), (3, "-"), (4, "--")):
            for family, color in zip(FAMILIES, PALETTE, strict=False):
                part = reduced.log10_exact.sel(kind="ball", family=family, m=m)
                trees.plot(part.depth, part, style, color=color, marker="o", markersize=3.5, label=f"{family}, m = {m}")
        trees.set(xlabel="depth K", ylabel="log₁₀ number of classes", title="Balls of degree m, exact")
        trees.set_xticks(range(1, self.depths + 1))
        trees.legend()
        bounds.semilogy(BOUNDED, reduced.lower_bound, color=PALETTE[0], label="at least, message passing")
        bounds.semilogy(BOUNDED, reduced.upper_bound, color=PALETTE[1], label="at most, powers of D^-α A D^-β")
        bounds.axvline(int(reduced.overtakes[0]), **THEORY)
        bounds.set(xlabel="depth K", ylabel="log₁₀ number of classes", title="The document's bounds, m = 3")
        bounds.legend(loc="lower right")
        return {"class-growth": figure, "one-class": _draw_class()}

    def _exact(self, kind: str, family: str, m: int, depth: int) -> int:
        return 1 if self.features == 1 else int(COUNTS[kind][FAMILIES.index(family)](m, depth))


def _log10(count: int) -> float:
    return log10(count)


def _root_classes(tree: Graph, features: int, depth: int) -> list[int]:
    """The classes of the roots of all labelings of a tree: of refinement, of powers of A."""
    labelings = features**tree.nodes
    digits = np.arange(labelings)[:, None] // features ** np.arange(tree.nodes) % features
    offsets = np.arange(labelings + 1) * tree.nodes
    shifted = (tree.indices + offsets[:-1, None]).ravel().astype(np.int32)
    starts = np.concatenate(
        [(tree.indptr[:-1] + len(tree.indices) * np.arange(labelings)[:, None]).ravel(), [len(shifted)]]
    )
    joined = Graph(starts, shifted, features=np.eye(features, dtype=np.int64)[digits.ravel()])
    roots = GraphBatch(joined, offsets).offsets[:-1]
    families: tuple[Any, Any] = (color_refinement(joined, depth)[-1], operator_classes(joined, depth)[-1])
    return [number_of_classes(classes[roots]) for classes in families]


def _draw_class() -> Figure:
    """Trees in one class of all operators that refinement tells apart."""
    tree = full_tree(2, 2)
    labelings = [(0, 1, 0, 1, 0, 0, 0), (0, 1, 0, 0, 0, 1, 0)]
    figure, axes = panels(2, size=(3.4, 2.6))
    for axis, features in zip(axes, labelings, strict=True):
        draw_graph(axis, tree, tree_layout(tree), features, names=features)
    figure.suptitle("One class of every operator, two of message passing", color=INK, fontsize=10.5)
    return figure
