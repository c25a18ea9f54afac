"""Table 2.2: counting walks along nodes of prescribed colors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from dynascope import graphs
from dynascope.dynamics import ensemble
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.graphs.paper import PAPER
from dynascope.experiments.graphs.walk_drawing import draw_errors, draw_learning
from dynascope.experiments.graphs.walk_networks import MessageCounter, OperatorCounter, Schedule
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import above, within
from dynascope.lab.experiment import Experiment, Source, Values
from dynascope.models import FeaturedGraph
from dynascope.tasks.data import citation_graphs
from dynascope.theory.graphs.smooth_fit import quadratic_fit

OPERATORS: dict[str, tuple[Any, int, bool]] = {
    "A": (graphs.adjacency, 1, False),
    "A+": (graphs.adjacency, 2, False),
    "Ã(1)": (graphs.with_self_loops, 1, False),
    "Ã(1)+": (graphs.with_self_loops, 2, False),
    "A, standardized": (graphs.adjacency, 1, True),
    "Ã(1), standardized": (graphs.with_self_loops, 1, True),
}
"""By name: the operator, how many powers for each step of the walk, and whether columns are standardized."""
BEHIND = ["Ã(1)", "Ã(1)+"]
RECORDINGS = 50


class WalkCounting(Experiment):
    """Can an MLP on powers of a fixed operator count colored walks, as message passing can?"""

    id = "graphs.walk-counting"
    source = Source(PAPER, "Section 2.6, Table 2.2")
    cost = {"quick": 25, "full": 40000}
    presets = {
        "quick": {
            "regular_edges": 2,
            "regular_epochs": 1500,
            "cora_epochs": 100,
            "message_rates": (0.005,),
            "message_widths": (16,),
            "operator_rates": (0.01,),
            "operator_widths": (32,),
            "schedule": "cosine",
            "seeds": 3,
        },
        "chosen": {
            "message_rates": (0.01,),
            "message_widths": (32,),
            "operator_rates": (0.01,),
            "operator_widths": (32,),
        },
    }
    control = {"shuffled": True}
    known_failures = {
        "quick/messages-count-cora": """On Cora message passing takes the document's 20,000 epochs; after 100 of them it
        is not yet below A's powers in test error.""",
        "quick/normalized-behind": """On a regular graph powers of A and of Ã(1) have the same span, hence the same
        classes, and here they are trained to the same error. The table's gap is one of optimization.""",
    }
    notes = """Nodes are blue where their number is even, red where it is odd. The label counts walks from a node that
    pass through blue nodes only, itself included: 3 edges on a random 6-regular graph of 1000 nodes, 2 on Cora.
    The identity is among the operators. Errors are mean squares over the variance of the labels; of each grid the rate
    and the width with the least training error (median over seeds) are shown, at the recording with the least training
    error. Quick counts walks of 2 edges on both graphs, and trains one rate and one width for a short time, with a
    cosine decay. The control shuffles the labels. The full cost on a CPU is an estimate."""

    which: tuple[Literal["regular", "cora"], ...] = ("regular", "cora")
    regular_edges: int = Field(3, ge=1)
    """Of a walk on the regular graph."""
    cora_edges: int = Field(2, ge=1)
    regular_epochs: int = Field(20000, ge=1)
    cora_epochs: int = Field(20000, ge=1)
    batch: int = Field(32, ge=1)
    message_rates: Values = (0.1, 0.02, 0.01, 0.005, 0.001)
    message_widths: tuple[int, ...] = (8, 16, 32, 64, 256)
    operator_rates: Values = (0.1, 0.02, 0.01, 0.005, 0.001, 0.0001)
    operator_widths: tuple[int, ...] = (8, 32, 64, 256)
    schedule: Literal["published", "cosine"] = "published"
    """`published`: constant rates, but for message passing on the regular graph, where it falls by 0.7 four times."""
    seeds: int = Field(5, ge=1)
    shuffled: bool = False

    def epochs(self, which: str) -> int:
        """The length of training on a graph."""
        return self.cora_epochs if which == "cora" else self.regular_epochs

    def edges(self, which: str) -> int:
        """The length of the walks on a graph."""
        return self.cora_edges if which == "cora" else self.regular_edges

    def data_sets(self) -> tuple[str, ...]:
        return ("cora",) if "cora" in self.which else ()

    @property
    def matmul_precision(self) -> str:
        return "default"

    def problem(self, which: str, seed: int) -> tuple[graphs.Graph, np.ndarray, np.ndarray, int]:
        """The colored graph, its labels, the nodes with those to train on first, and how many these are."""
        if which == "cora":
            graph = graphs.parity_colors(citation_graphs.structure("cora"))
            rng = np.random.default_rng(seed)
            colors = [rng.permutation(np.arange(start, graph.nodes, 2)) for start in (0, 1)]
            order = np.concatenate([part[:500] for part in colors] + [part[500:] for part in colors])
            count = 1000
        else:
            graph = graphs.parity_colors(graphs.random_regular(6, 1000, seed=seed))
            order, count = np.arange(graph.nodes), 300
        y = graphs.walk_counts(graph, np.arange(graph.nodes) % 2, [0] * (self.edges(which) + 1)).astype(float)
        return graph, np.random.default_rng(seed + 1).permutation(y) if self.shuffled else y, order, count

    def measure(self, seed: int) -> xr.Dataset:
        found = [self.trained(which, seed) for which in self.which]
        measured = xr.concat(found, "graph", join="outer").assign_coords(graph=list(self.which))
        return measured.assign_attrs(seed=seed)

    def trained(self, which: str, seed: int) -> xr.Dataset:
        """The errors of all models on one graph, (model, setting, seed, recording, split)."""
        graph, y, order, count = self.problem(which, seed)
        steps = self.epochs(which) * (count // self.batch)
        seeds = member_seeds(seed, self.seeds)
        common = {"train": count, "batch": self.batch, "steps": steps}
        fixed = {"y": y.astype(np.float32), "order": order.astype(np.int32)}
        record = np.unique(np.linspace(0, steps, RECORDINGS + 1).astype(int))

        def schedule(usual: Schedule) -> Schedule:
            return "cosine" if self.schedule == "cosine" else usual

        features = {name: columns_of(graph, self.edges(which), *kind) for name, kind in OPERATORS.items()}
        columns = max(each.shape[1] for each in features.values())
        used = [np.arange(columns) < each.shape[1] for each in features.values()]
        padded = [np.pad(each, ((0, 0), (0, columns - each.shape[1]))) for each in features.values()]
        over = {
            "operators": {"features": np.stack(padded).astype(np.float32), "used": np.stack(used).astype(np.float32)},
            "setting": _grid(self.operator_rates, self.operator_widths),
            "seed": seeds,
        }
        member = OperatorCounter(max(self.operator_widths), schedule=schedule("constant"), **common)
        fixed_operators = ensemble(member, over, fixed=fixed, steps=steps, record=record, keep=False).trace.error
        usual: Schedule = "steps" if which == "regular" else "constant"
        fixed = {**fixed, "graph": FeaturedGraph(graph)}
        parts = []
        for widths in similar(self.message_widths):
            over = {"setting": _grid(self.message_rates, widths), "seed": seeds}
            member = MessageCounter(max(widths), schedule=schedule(usual), depth=self.edges(which), **common)
            trained = ensemble(member, over, fixed=fixed, steps=steps, record=record, keep=False).trace
            parts.append(trained.error)
        messages = xr.concat(parts, "setting")
        messages = messages.assign_coords(setting=np.arange(messages.sizes["setting"]))
        pieces = [messages.expand_dims("operators"), fixed_operators]
        error = xr.concat([_numbered(piece) for piece in pieces], "model", join="outer")
        return xr.Dataset({"error": error.assign_coords(model=["GIN", *OPERATORS])})

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The errors of the best smooth predictor, (graph, split), and the least training error that the classes of
        each model allow, (graph, model)."""
        smooth, floors = [], []
        for which in self.which:
            graph, y, order, count = self.problem(which, int(measured.attrs["seed"]))
            train, length = order[:count], self.edges(which)
            colors = np.arange(graph.nodes) % 2
            smooth.append(quadratic_fit(columns_of(graph, length, *OPERATORS["A"]), y, train, colors))
            classes = [graphs.color_refinement(graph, length)[-1]]
            classes += [
                graphs.operator_classes(graph, length * more, operator=op)[-1] for op, more, _ in OPERATORS.values()
            ]
            share = np.var(y[train]) / np.var(y)
            floors.append([share * graphs.irreducible_error(each[train], y[train]) for each in classes])
        coords = {"graph": list(self.which), "model": measured.model, "split": ["train", "test"]}
        return xr.Dataset({"smooth": (("graph", "split"), smooth), "floor": (("graph", "model"), floors)}, coords)

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        error = measured.error.drop_vars(["recording", "setting"], errors="ignore")
        train = error.sel(split="train", drop=True).fillna(np.inf)
        best = error.isel(recording=train.argmin("recording"))
        setting = train.min("recording").median("seed").argmin("setting")
        return xr.Dataset(
            {
                "error": best.isel(setting=setting),
                "setting": setting,
                "last": error.isel(setting=setting, recording=-1),
                "smooth": predicted.smooth,
                "floor": predicted.floor,
            }
        )

    def judge(self, reduced: xr.Dataset) -> Iterable[Claim]:
        test = reduced.error.sel(split="test", drop=True).median("seed")
        gap = test.sel(model=list(OPERATORS)).min("model") / test.sel(model="GIN")
        statement = (
            "Message passing counts many times better than every GA-MLP (test error of the best of them, over its own)"
        )
        if "regular" in self.which:
            yield above("messages-count", f"{statement}, on the regular graph", gap.sel(graph="regular"), 10)
            yield from self.regular_claims(reduced, test.sel(graph="regular"))
        if "cora" in self.which:
            yield above("messages-count-cora", f"{statement}, on Cora", gap.sel(graph="cora"), 10)
            one = test.sel(graph="cora")
            yield above(
                "normalized-on-cora", "With Ã(1) much of the count stays unseen on Cora", one.sel(model=BEHIND), 0.4
            )
            statement = "There A's powers are better (test error of Ã(1)'s over theirs)"
            yield above("plain-on-cora", statement, one.sel(model="Ã(1)") / one.sel(model="A"), 3)
        train = reduced.error.sel(split="train", drop=True)
        statement = "No model's training error is below what the classes of its features allow (smallest excess)"
        yield above("floor", statement, (train - reduced.floor).sel(model=list(OPERATORS)), -1e-6)

    def regular_claims(self, reduced: xr.Dataset, test: xr.DataArray) -> Iterable[Claim]:
        statement = "Twice the powers do not close the gap (their test error over that of A's)"
        yield above("more-powers", statement, test.sel(model="A+") / test.sel(model="A"), 0.5)
        statement = "A's test error is that of the best smooth predictor, a quadratic fit (ratio)"
        smooth = reduced.smooth.sel(graph="regular", split="test", drop=True)
        yield within("smooth", statement, test.sel(model="A") / smooth, 0.8, 1.25)
        statement = "With standardized columns A and Ã(1), which see the same classes there, err alike (ratio)"
        yield within(
            "same-classes",
            statement,
            test.sel(model="Ã(1), standardized") / test.sel(model="A, standardized"),
            0.8,
            1.25,
        )
        statement = "On the regular graph, as in the table, Ã(1)'s powers are worse than A's (ratio)"
        yield above("normalized-behind", statement, test.sel(model="Ã(1)") / test.sel(model="A"), 2)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Mapping[str, Figure]:
        epochs = {which: self.epochs(which) for which in self.which}
        return {
            "walk-counting": draw_errors({which: self.edges(which) for which in self.which}, reduced),
            "learning": draw_learning(epochs, measured, reduced),
        }


def columns_of(graph: graphs.Graph, length: int, operator: Any, more: int, standardized: bool) -> np.ndarray:
    """The features X, ωX, ω²X, ... of every node, (nodes, columns)."""
    powers = graphs.powers(operator(graph), graph.features, length * more).astype(float)
    columns = powers.transpose(1, 0, 2).reshape(graph.nodes, -1)
    return (columns - columns.mean(0)) / np.maximum(columns.std(0), 1e-9) if standardized else columns


def similar(widths: Iterable[int]) -> list[list[int]]:
    """The widths in groups, within which the largest is at most eight times the smallest: in one array program every
    network costs as much as the widest."""
    groups: list[list[int]] = []
    for width in sorted(widths):
        if groups and width <= 8 * groups[-1][0]:
            groups[-1].append(width)
        else:
            groups.append([width])
    return groups


def _grid(rates: Iterable[float], widths: Iterable[int]) -> dict[str, np.ndarray]:
    rate, width = np.array([(rate, width) for width in widths for rate in rates]).T
    return {"rate": rate.astype(np.float32), "width": width.astype(np.float32)}


def _numbered(error: xr.DataArray) -> xr.DataArray:
    """The recordings of a run by their number, with the operators as models."""
    renamed = error.rename(operators="model", step="recording")
    return renamed.assign_coords(recording=np.arange(renamed.sizes["recording"])).drop_vars("model", errors="ignore")
