"""Graphs on paper: nodes colored by their class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from dynascope.figures import FAINT, INK, PALETTE, panels
from dynascope.graphs import Graph, batch, color_refinement, from_edges, to_networkx

MORE = ("#8cb369", "#f4845f", "#4f6d7a", "#c6a4d8", "#b08968", "#2a9d8f", "#e5989b", "#6c757d")


def class_colors(classes: Any) -> list[Any]:
    """A color for each class number 0, 1, ...: the palette's, then lighter ones again."""
    base = [to_rgb(color) for color in (*PALETTE, *MORE)]
    wanted = int(np.max(classes, initial=-1)) + 1
    rounds = [tuple(1 - (1 - np.array(color)) * 0.6**turn) for turn in range(1 + wanted // len(base)) for color in base]
    return [rounds[number] for number in np.asarray(classes, int)]


def layout(graph: Graph) -> np.ndarray:
    """Positions of the nodes, (nodes, 2), from springs whose lengths are the distances in the graph; parts that are not
    connected stand side by side."""
    import networkx as nx

    drawn, places, right = to_networkx(graph), np.zeros((graph.nodes, 2)), 0.0
    for part in nx.connected_components(drawn):
        inside = sorted(part)
        ring: Any = nx.circular_layout(drawn.subgraph(inside))
        found = nx.kamada_kawai_layout(drawn.subgraph(inside), pos=ring)
        for node, place in found.items():
            places[node] = place
        places[inside, 0] += right - places[inside, 0].min()
        right = places[inside, 0].max() + 0.8
    return places


def tree_layout(graph: Graph) -> np.ndarray:
    """Positions for a tree rooted at node 0, (nodes, 2): levels from top to bottom, a parent above its children."""
    depth, order, children = np.zeros(graph.nodes, int), [0], {}
    for node in order:
        children[node] = [int(one) for one in graph.neighbors(node) if one > node]
        depth[children[node]] = depth[node] + 1
        order += children[node]
    x = np.zeros(graph.nodes)
    leaves = [node for node in _depth_first(children) if not children[node]]
    x[leaves] = np.arange(len(leaves))
    for node in reversed(order):
        if children[node]:
            x[node] = np.mean(x[children[node]])
    high = max(1.0, len(leaves) / (2.5 * max(1, depth.max())))
    return np.stack([x - x[0], -high * depth], axis=1)


def draw_graph(
    axes: Axes,
    graph: Graph,
    places: np.ndarray,
    classes: Any,
    *,
    names: Sequence[Any] | None = None,
    size: float | int = 160,
    ringed: Sequence[int] = (),
) -> None:
    """The graph with its nodes colored by class, `names` written on them, and some with a ring."""
    lines = places[graph.edges[graph.edges[:, 0] != graph.edges[:, 1]]]
    axes.add_collection(LineCollection(list(lines), colors=FAINT, linewidths=1.1, zorder=1))
    edge = [INK if node in ringed else "white" for node in range(graph.nodes)]
    width = [2.4 if node in ringed else 0.9 for node in range(graph.nodes)]
    style = {"c": class_colors(classes), "edgecolors": edge, "linewidths": width}
    axes.scatter(places[:, 0], places[:, 1], s=float(size), zorder=2, **style)
    for node, name in enumerate(names or ()):
        axes.text(
            places[node, 0], places[node, 1], str(name), ha="center", va="center", fontsize=7.5, color="white", zorder=3
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    axes.axis("off")


def egonet(graph: Graph, center: int, radius: int) -> Graph:
    """The nodes within `radius` steps of a node and the edges among them; the center is node 0."""
    inside = [center]
    for _ in range(radius):
        around = np.concatenate([graph.neighbors(node) for node in inside]).tolist()
        inside = list(dict.fromkeys([*inside, *around]))
    number = np.full(graph.nodes, -1)
    number[inside] = np.arange(len(inside))
    pairs = number[graph.edges]
    return from_edges(pairs[(pairs >= 0).all(axis=1)], len(inside))


def joint_colors(graphs: Sequence[Graph], rounds: int) -> list[np.ndarray]:
    """The colors of several graphs after some rounds of refinement, numbered together from 0 in the order in which they
    are met."""
    joined = batch(list(graphs))
    colors = color_refinement(joined.joined, rounds)[-1]
    _, first, inverse = np.unique(colors, return_index=True, return_inverse=True)
    return np.split(np.argsort(np.argsort(first))[inverse], joined.offsets[1:-1])


def _depth_first(children: dict[int, list[int]]) -> list[int]:
    found, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += reversed(children[node])
    return found


def draw_two_nodes(measured: xr.DataTree, titles: Sequence[str]) -> Figure:
    """The graphs `one` and `other` around their first nodes, with the degrees of those and of their neighbors."""
    figure, axes = panels(2, size=(4.2, 3.8))
    for axis, name, title in zip(axes, ("one", "other"), titles, strict=True):
        graph = from_edges(measured[name].to_dataset().edges.values)
        steps = np.full(graph.nodes, 2)
        steps[graph.neighbors(0)], steps[0] = 1, 0
        names = np.where(steps < 2, graph.degrees, "").tolist()
        draw_graph(axis, graph, layout(graph), steps, names=names, ringed=(0,))
        axis.set_title(title)
    figure.suptitle("Two nodes that A and A² confuse and two rounds of refinement tell apart", color=INK, fontsize=11)
    return figure
