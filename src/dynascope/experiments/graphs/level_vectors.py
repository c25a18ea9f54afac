"""Propositions 2.6 and 2.7: one class of all operators holds many trees, and many values of a walk count."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.drawing import draw_graph, tree_layout
from dynascope.figures import INK, PALETTE, THEORY, panels
from dynascope.graphs import batch, color_refinement, number_of_classes, operator_classes, random_regular, walk_counts
from dynascope.lab.criteria import agrees, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.data import citation_graphs
from dynascope.theory.graphs import level_vectors, walk_gap
from dynascope.theory.graphs.exact_gin import apply_gin, exact_gin


class LevelVectors(Experiment):
    """How many trees, and how many walk counts, does one class of all operators hold?"""

    id = "graphs.level-vectors"
    source = Source(SIMPLE_STRUCTURES, "Propositions 2.6, 2.7, Lemmas A.7, A.8, Appendices A.8, A.9")
    cost = {"quick": 2, "full": 2}
    presets = {"quick": {}}
    control = {"cases": ((3, 1), (4, 1))}
    notes = """Trees have m children at every inner node and features 0 and 1. A level vector has the number of zeros on
    each level; operators of the structure distinguish nothing else. `cases` are pairs of m and the depth, which is also
    the length of the walks. At depth 1, the control, the number of walks is the number of leaves of a kind, which the
    level vector determines. The weights of the graph isomorphism network are set by hand, not trained."""

    cases: tuple[tuple[int, int], ...] = ((3, 2), (3, 3), (4, 2))
    sequence: tuple[int, ...] = (0, 0, 0)
    """The features that a walk must pass through; a walk of k edges takes the first k."""
    nodes: Annotated[int, Field(ge=8, le=10**5)] = 1000
    """Nodes of the random 6-regular graph on which the network with hand-set weights counts walks, beside Cora."""

    def data_sets(self) -> tuple[str, ...]:
        return ("cora",)

    def measure(self, seed: int) -> xr.DataTree:
        parts: dict[str, xr.Dataset] = {}
        for m, depth in self.cases:
            found: dict[str, list[int]] = {"values": [], "operator_classes": [], "refinement_classes": [], "first": []}
            for zeros in walk_gap.level_totals(m, depth):
                trees = walk_gap.confused_trees(m, self._walk(depth), zeros)
                values = [walk_gap.walks_from_root(tree, self._walk(depth)) for tree in trees]
                joined = batch(trees)
                roots = joined.offsets[:-1]
                seen = operator_classes(joined.joined, 2 * depth)[-1][roots]
                told = color_refinement(joined.joined, depth)[-1][roots]
                for name, one in zip(found, (values, seen, told), strict=False):
                    found[name].append(number_of_classes(np.asarray(one)))
                found["first"].append(min(values))
            parts[f"m={m} K={depth}"] = xr.Dataset({name: ("zeros", row) for name, row in found.items()})
        graphs = {"regular": random_regular(6, self.nodes, seed=seed), "cora": citation_graphs.structure("cora")}
        errors = []
        for graph in graphs.values():
            blue = np.arange(graph.nodes) % 2
            counts = [walk_counts(graph, blue, (0,) * (edges + 1)) for edges in (2, 3)]
            network = [exact_gin(int(graph.degrees.max()), edges) for edges in (2, 3)]
            made = [apply_gin(each, graph, (blue == 0)[:, None].astype(float)) for each in network]
            errors.append([np.abs(one - two).max() for one, two in zip(counts, made, strict=True)])
        parts["network"] = xr.Dataset(
            {"error": (("graph", "edges"), errors)}, coords={"graph": list(graphs), "edges": [2, 3]}
        )
        return xr.DataTree.from_dict(parts)

    def predict(self, measured: xr.DataTree) -> xr.DataTree:
        parts = {}
        for m, depth in self.cases:
            counts = level_vectors.trees_by_levels(m, depth)
            whole, proper = (level_vectors.admissible_vectors(m, depth, proper=each) for each in (False, True))
            parts[f"m={m} K={depth}"] = xr.Dataset(
                {
                    "trees": ("vector", np.sort(counts[counts > 0].ravel()).astype(float)),
                    "admissible": ("admissible_vector", np.array([int(counts[each]) for each in whole], float)),
                    "fewest_proper": float(min(int(counts[each]) for each in proper)),
                    "lemma": float(level_vectors.fewest_trees(depth)),
                    "values": float(m ** (depth - 1) + 1),
                    "incomplete": float(level_vectors.incomplete_choices(m, depth)) if depth > 1 else 0.0,
                    "totals": float(len(walk_gap.level_totals(m, depth))),
                }
            )
        return xr.DataTree.from_dict(parts)

    def reduce(self, measured: xr.DataTree, predicted: xr.DataTree) -> xr.Dataset:
        rows: dict[str, list[float]] = {}
        for name in predicted.children:
            found, known = measured[name].to_dataset(), predicted[name].to_dataset()
            row = {
                "values": found["values"].min(),
                "most_values": found["values"].max(),
                "operator_classes": found.operator_classes.max(),
                "refinement_classes": found.refinement_classes.min(),
                "level_classes": found.sizes["zeros"],
                "predicted_values": known["values"],
                "predicted_level_classes": known.totals,
                "fewest_trees": known.admissible.min(),
                "fewest_proper": known.fewest_proper,
                "lemma": known.lemma,
                "incomplete": known.incomplete,
                "vectors": known.sizes["vector"],
                "all_trees": known.trees.sum(),
                "shift": found["first"].min(),
            }
            for key, value in row.items():
                rows.setdefault(key, []).append(float(value))
        table = xr.Dataset({key: ("case", values) for key, values in rows.items()}, {"case": list(predicted.children)})
        return table.assign(network_error=measured["network"].to_dataset().error)

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "Trees that all operators confuse take several values of the walk count: every integer of a range"
        yield every("many-values", statement, (reduced["values"] > 2) & (reduced.operator_classes == 1))
        statement = "They take m^(k-1) + 1 values, in each of (m - 2)m^(k-1) + 1 classes"
        match = (reduced["values"] == reduced.predicted_values) & (reduced.most_values == reduced.predicted_values)
        yield every("values", statement, match & (reduced.level_classes == reduced.predicted_level_classes))
        statement = "Color refinement of depth k tells them all apart"
        yield every("refinement-sees", statement, reduced.refinement_classes == reduced.predicted_values)
        statement = "Every admissible level vector holds at least 2^(2^(K-1) - 1) trees"
        yield every("lemma", statement, reduced.fewest_trees >= reduced.lemma, source="Lemma A.7")
        statement = "Every choice of 1 or 2 on the rarer half of the paths can be completed (choices that cannot)"
        yield agrees("completion", statement, reduced.incomplete, 0, absolute=0, source="Lemma A.8")
        known = {name: KNOWN[name] for name in reduced.case.values.tolist() if name in KNOWN}
        if known:
            rows = reduced.sel(case=list(known))
            found = np.stack([rows.all_trees, rows.vectors, rows.fewest_trees, rows.fewest_proper], axis=1)
            statement = "Trees, level vectors and the fewest trees of an admissible vector, counted by hand, agree"
            yield agrees("counts", statement, found, np.array(list(known.values()), float), absolute=0)
        statement = "A graph isomorphism network with weights set by hand counts walks of 2 and 3 edges without error"
        yield agrees("exact-network", statement, reduced.network_error, 0, absolute=0, source="Section 2.6.2")

    def draw(self, measured: xr.DataTree, predicted: xr.DataTree, reduced: xr.Dataset) -> Figures:
        m, depth = self.cases[0]
        trees = walk_gap.confused_trees(m, self._walk(depth), walk_gap.level_totals(m, depth)[0])
        figure, axes = panels(min(4, len(trees)), size=(2.9, 2.5), squeeze=False)
        for axis, tree in zip(axes[0], trees, strict=False):
            features = np.zeros(tree.nodes, int) if tree.features is None else tree.features[:, 0]
            draw_graph(axis, tree, tree_layout(tree), features, names=features.tolist(), size=110)
            walks = walk_gap.walks_from_root(tree, self._walk(depth))
            axis.set_title(f"{walks} walk{'s' if walks != 1 else ''}")
        said = ", ".join(map(str, self._walk(depth)))
        figure.suptitle(
            f"One class of every operator; walks from the root through features {said}", color=INK, fontsize=10
        )
        last = list(predicted.children)[-1]
        part, case = predicted[last].to_dataset(), reduced.sel(case=last)
        second, axis = panels(1, size=(5.2, 3.6))
        axis.plot(part.trees, color=PALETTE[1], label="all level vectors")
        axis.axhline(float(case.lemma), **THEORY, label="Lemma A.7, admissible vectors")
        axis.axhline(float(case.fewest_trees), color=PALETTE[0], linewidth=1.1, label="fewest of an admissible vector")
        axis.set(yscale="log", xlabel="level vectors, sorted", ylabel="trees that operators confuse", title=last)
        axis.legend()
        return {"level-vectors": figure, "trees-per-class": second}

    def _walk(self, length: int) -> tuple[int, ...]:
        return (self.sequence * length)[:length]


KNOWN = {"m=3 K=2": (240, 80, 3, 6), "m=3 K=3": (4665760, 2240, 701, 2044), "m=4 K=2": (1430, 170, 3, 7)}
"""Trees, level vectors, and the fewest trees of an admissible vector, without and with 1 <= q_1 <= m - 1."""
