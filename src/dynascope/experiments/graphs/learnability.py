"""The error at held-out nodes against the number of training nodes: a floor that cannot be expressed away, and an error
that data removes."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float, Int
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope import graphs
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.graphs.learnability_drawing import draw_learnability
from dynascope.experiments.graphs.walk_training import columns_of
from dynascope.lab.criteria import above, agrees, below, slope, within
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.models import GAMLP, GIN, FeaturedGraph
from dynascope.theory.graphs.smooth_fit import quadratic_fit
from dynascope.theory.graphs.walk_floors import least_squares_error, walk_floor

MESSAGES = "message passing"
FITTED = 5
"""Coefficients of a quadratic in two variables besides the constant."""
ENOUGH = 64
"""Training nodes from which on the curves are judged: half of them are blue, several times the fitted coefficients."""
SHARES = (0.87, 1.15)
"""The share of a floor in the measured error: 15 % around 1, several times the standard error over held-out nodes."""


class NodeLearner(ds.Member):
    """The part that both networks share: Adam with a cosine decay to 0, on minibatches of the first `count` nodes of an
    order, and the error on the nodes behind the first `largest`."""

    largest: int
    batch: int
    width: int
    steps: int
    rate: float

    def descent(self, model: Any, task: Any, inputs: Any, outputs: Any, y: Array, order: Array, count: Array) -> Any:
        """The descent: `inputs(nodes)` are those of a minibatch, `outputs(model)` the outputs at all nodes."""
        nodes = order[jnp.arange(self.largest) % count]
        held = order[self.largest :]

        def error(snapshot: Any) -> Float[Array, ""]:
            return jnp.mean((outputs(snapshot.model)[held, 0] - y[held]) ** 2) / jnp.var(y)

        optimizer = optax.adam(optax.cosine_decay_schedule(self.rate, self.steps))
        key = jax.random.fold_in(jax.random.key(5), order[0])
        data, probes = (inputs(nodes), y[nodes]), {"error": ds.probes.probe(error)}
        return ds.Descent(model, task, optimizer, data=data, batch=self.batch, key=key, probes=probes)


class OperatorLearner(NodeLearner):
    """An ensemble member: the network of a GA-MLP on standardized features, `used` of them."""

    def __call__(self, model: Any, count: Array, seed: Any, y: Array) -> Any:
        features = model["features"]
        key = jax.random.fold_in(jax.random.key(3), seed["seed"])
        network = GAMLP(features.shape[1], 1, width=self.width, key=key)
        task = ds.tasks.Supervised("mse")
        return self.descent(
            network, task, lambda nodes: features[nodes], lambda model: model(features), y, seed["order"], count
        )


class MessageLearner(NodeLearner):
    """An ensemble member: GIN with jumping knowledge, as deep as the walk is long."""

    depth: int

    def __call__(self, count: Array, seed: Any, graph: Any, y: Array) -> Any:
        key = jax.random.fold_in(jax.random.key(4), seed["seed"])
        network = GIN(graph.x.shape[1], self.depth, 1, width=self.width, key=key)
        task = ds.tasks.NodeTask(graph)
        return self.descent(network, task, lambda nodes: nodes, lambda model: model(graph), y, seed["order"], count)


class Learnability(Experiment):
    """Which errors at new nodes does more data remove, and which ones can it not?"""

    id = "graphs.learnability"
    source = Source(SIMPLE_STRUCTURES, "Section 2.5, Proposition 2.7; Section 2.6")
    cost = {"quick": 15, "full": 60}
    presets = {"quick": {"nodes": 4000, "counts": (64, 256, 1024), "orders": (0, 1, 2, 4), "seeds": 3}}
    control = {"edges": 1}
    notes = """Labels count walks through blue nodes on a random regular graph, colors are the parity of a node's
    number, errors are mean squares at nodes that are not trained on, over the variance of the labels. GA-MLPs of width
    32 read standardized X, A X, ..., A^K X; GIN has as many layers as the walk has edges. Adam, rate 0.01 with a cosine
    decay, minibatches of 32, for walks of two edges those of `graphs.walk-counting`. The floors are exact in the limit
    of large graphs (theory.graphs.walk_floors). Half of the training nodes are blue. A quadratic fit needs no training:
    with two edges the best function of the features is a quadratic in the numbers of blue nodes at distances 1 and 2,
    so its whole curve is predicted. In the control walks have one edge: both families can express the count, and no
    error is irreducible."""

    edges: Annotated[int, Field(ge=1, le=3)] = 2
    """Length of the walks."""
    degree: Annotated[int, Field(ge=3, le=8)] = 6
    nodes: Annotated[int, Field(ge=20)] = 8000
    counts: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (32, 64, 128, 256, 512, 1024, 2048)
    """Numbers of training nodes; the largest should be a multiple of each."""
    orders: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0, 1, 2, 3, 4)
    """Highest powers K of the GA-MLPs."""
    width: PositiveInt = 32
    message_width: PositiveInt = 16
    rate: float = Field(0.01, gt=0)
    batch: PositiveInt = 32
    steps: PositiveInt = 4000
    seeds: PositiveInt = 8
    fits: PositiveInt = 200
    """Choices of training nodes for the quadratic fit."""

    @model_validator(mode="after")
    def _fits(self) -> Any:
        if max(self.counts) >= self.nodes:
            raise ValueError(f"counts must be below nodes ({self.nodes}); got {max(self.counts)}")
        if self.batch > max(self.counts):
            raise ValueError(f"batch must be at most the largest of counts ({max(self.counts)}); got {self.batch}")
        if self.edges not in self.orders:
            raise ValueError(f"orders must contain edges ({self.edges}), the order with the floor; got {self.orders}")
        return self

    def measure(self, seed: int) -> xr.Dataset:
        graph = graphs.parity_colors(graphs.random_regular(self.degree, self.nodes, seed=seed))
        y = graphs.walk_counts(graph, np.arange(self.nodes) % 2, [0] * (self.edges + 1)).astype(float)
        orders = [alternating(self.nodes, each) for each in member_seeds(seed, max(self.seeds, self.fits)).tolist()]
        models = {self.name(order, own): self.features(graph, order, own) for order, own in self.families()}
        common = (max(self.counts), self.batch)
        over: dict[str, Any] = {"count": np.array(self.counts, np.int32)}
        over["seed"] = {"seed": member_seeds(seed, self.seeds), "order": np.stack(orders[: self.seeds])}
        how: dict[str, Any] = {"steps": self.steps, "record": [self.steps], "keep": False}
        operators = OperatorLearner(*common, self.width, self.steps, self.rate)
        fixed: dict[str, Any] = {"y": y.astype(np.float32)}
        stacked = {"features": np.stack([*models.values()]).astype(np.float32)}
        first = ds.ensemble(operators, {"model": stacked, **over}, fixed=fixed, **how).trace
        messages = MessageLearner(*common, self.message_width, self.steps, self.rate, depth=self.edges)
        second = ds.ensemble(messages, over, fixed={**fixed, "graph": FeaturedGraph(graph)}, **how).trace
        both = [first.error.assign_coords(model=[*models]), second.error.expand_dims(model=[MESSAGES])]
        error = xr.concat([each.isel(step=-1, drop=True).drop_vars("seed") for each in both], "model")
        columns = columns_of(graph, self.edges, graphs.adjacency, 1, True)
        fitted = [[self.fit(columns, y, order, count) for order in orders[: self.fits]] for count in self.counts]
        classes = graphs.operator_classes(graph, max(self.orders))
        graph_floor = [graphs.irreducible_error(classes[order], y) for order in self.orders]
        return xr.Dataset(
            {"error": error, "fitted": (("count", "fit"), fitted), "graph_floor": ("order", graph_floor)},
            coords={"count": list(self.counts), "order": list(self.orders)},
        )

    def families(self) -> list[tuple[int, bool]]:
        """The GA-MLPs: the highest power, and whether the node's own X is seen."""
        return [*((order, True) for order in self.orders), (self.edges, False)]

    def name(self, order: int, own: bool) -> str:
        """The name of a GA-MLP."""
        return f"K = {order}" if own else f"K = {order}, without X"

    def features(self, graph: graphs.Graph, order: int, own: bool) -> Float[np.ndarray, "node column"]:
        """The standardized columns of a GA-MLP; those that it does not see are 0."""
        columns = columns_of(graph, max(*self.orders, self.edges), graphs.adjacency, 1, True)
        power = np.arange(columns.shape[1]) // 2
        return np.where((power <= order) & (own | (power > 0)), columns, 0.0)

    def fit(self, columns: Any, y: Any, order: Any, count: int) -> float:
        """The error of a quadratic fit to the blue nodes at each distance, at nodes that were not fitted."""
        return quadratic_fit(columns[:, 2::2], y, order[:count], np.arange(len(y)) % 2)[1]

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The floor of each family, and the curve of the quadratic fit to walks of two edges."""
        floors = [walk_floor(self.degree, self.edges, order, own=own) for order, own in self.families()]
        found = xr.Dataset({"floor": ("model", [*floors, 0.0])}, {"model": measured.model})
        if self.edges == 2:
            best = walk_floor(self.degree, 2, 2)
            curve = [least_squares_error(best, FITTED, count // 2) if count >= 32 else np.nan for count in self.counts]
            found["fitted"] = xr.DataArray(curve, {"count": list(self.counts)}, "count")
        return found

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        reduced = measured[["error", "graph_floor"]].assign(floor=predicted.floor, fit=measured.fitted.median("fit"))
        return reduced.assign(fit_predicted=predicted.fitted) if "fitted" in predicted else reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        about: dict[str, Any] = {"seeds": reduced.sizes["seed"]}
        place: dict[str, Any] = {**about, "source": "Section 2.5, last paragraph"}
        error, floor = reduced.error.median("seed"), reduced.floor
        left = error.sel(count=max(self.counts))
        full = self.name(self.edges, True)
        statement = (
            "With as many powers as the walk has edges, the error at the most training nodes is the one that no "
        )
        statement += "function of the features avoids (that one's share in it)"
        yield within("floor", statement, float(floor.sel(model=full) / left.sel(model=full)), *SHARES, **place)
        others = [self.name(order, own) for order, own in self.families() if order < self.edges or not own]
        shares = (floor / left).sel(model=others)
        statement = "So it is with fewer powers, and without the node's own color (share)"
        yield within("other-floors", statement, shares, *SHARES, **place)
        judged = error.sel(count=error["count"] >= ENOUGH)
        messages = judged.sel(model=MESSAGES)
        if self.edges > 1:
            ratio = float(left.sel(model=MESSAGES) / floor.sel(model=full))
            statement = "The error of message passing ends far below that floor (ratio)"
            post_hoc = "The steps of the quick preset: with half as many the ratio was 0.13."
            yield below("messages-below", statement, ratio, 0.1, post_hoc=post_hoc, **about)
            more = [self.name(order, True) for order in self.orders if order > self.edges]
            if more:
                statement = (
                    "More powers than edges set almost every node of the graph apart, and help no new node: the "
                )
                statement += "error ends no lower than the same floor (ratio)"
                own = {"of the training graph's own floor": reduced.graph_floor.isel(order=-1) / floor.sel(model=full)}
                yield above("more-powers", statement, (left / floor).sel(model=more), 0.85, shown=own, **about)
        if judged.sizes["count"] > 1:
            statement = "The error of message passing falls at least as 1/√N with N training nodes (exponent)"
            yield slope("messages-fall", statement, messages, "count", low=-9, high=-0.5, **about)
            excess = (judged - floor).sel(model=full)
            statement = (
                f"Above the floor data helps a GA-MLP too: of its excess at {ENOUGH} training nodes a quarter or "
            )
            statement += "less is left at the most"
            yield below("excess-falls", statement, float(excess.isel(count=-1) / excess.isel(count=0)), 0.25, **about)
        if "fit_predicted" in reduced and judged.sizes["count"]:
            shown = reduced.sel(count=judged["count"])
            statement = "The error of a quadratic fit is the predicted one at every number of training nodes"
            yield agrees("fit-predicted", statement, shown.fit, shown.fit_predicted, relative=0.15, seeds=self.fits)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        return {"learnability": draw_learnability(reduced)}


def alternating(nodes: int, seed: int) -> Int[np.ndarray, " node"]:
    """All nodes in a random order in which even and odd numbers, the two colors, take turns."""
    rng = np.random.default_rng(seed)
    even, odd = (rng.permutation(np.arange(start, nodes, 2)) for start in (0, 1))
    return np.stack([even[: len(odd)], odd], axis=1).reshape(-1).astype(np.int32)
