"""Training on graphs, against PyTorch Geometric where it is installed, and otherwise against what it does in PyTorch.

Three races: the propagated features of a citation graph of Pubmed's size; a step of GIN with jumping knowledge that
counts walks, a member of the walk-counting grid; and the features of 6,000 block-model graphs under three operators.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dynascope as ds
from benchmarks.timing import cpu_seconds, tell
from dynascope.experiments.graphs.walk_networks import MessageCounter

NODES, EDGES, WORDS, ORDER = 19717, 44324, 500, 5
"""Of Pubmed."""
STEPS, WIDTH, DEPTH, BATCH = 2000, 16, 3, 32
GRAPHS, POWERS = 6000, 120


def features() -> None:
    """x, ωx, ..., ω⁵x for the symmetrically normalized adjacency ω and features in 32 bits."""
    graph = ds.graphs.random_graph(NODES, EDGES, seed=0)
    x = np.random.default_rng(0).random((NODES, WORDS), np.float32)
    contenders: dict[str, Callable[[], Any]] = {
        "dynascope, graphs.powers": lambda: ds.graphs.powers(ds.graphs.normalized_adjacency(graph), x, ORDER)[-1],
        "scipy CSR, 32 bits": lambda: _scipy_powers(graph, x, np.float32),
        "scipy CSR, 64 bits": lambda: _scipy_powers(graph, x.astype(float), np.float64),
        **_torch_powers(graph, x),
    }
    _race(f"graph-features: {NODES} nodes, {WORDS} features, order {ORDER}, one thread", contenders)


def _scipy_powers(graph: ds.graphs.Graph, x: np.ndarray, kind: Any) -> np.ndarray:
    matrix, kept = ds.graphs.normalized_adjacency(graph).astype(kind), [x]
    for _ in range(ORDER):
        kept.append(matrix @ kept[-1])
    return np.concatenate(kept, axis=1)[:, -WORDS:]


def _torch_powers(graph: ds.graphs.Graph, x: np.ndarray) -> dict[str, Callable[[], Any]]:
    import torch

    torch.set_num_threads(1)
    given = torch.from_numpy(x)
    if find_spec("torch_geometric") is not None:
        from torch_geometric.data import Data  # pyright: ignore[reportMissingImports]
        from torch_geometric.transforms import SIGN  # pyright: ignore[reportMissingImports]

        index = torch.from_numpy(np.stack([graph.rows, graph.indices]).astype(np.int64))
        data = Data(x=given, edge_index=index, num_nodes=graph.nodes)
        return {"PyG, transforms.SIGN": lambda: SIGN(ORDER)(data.clone())[f"x{ORDER}"].numpy()}

    def job() -> np.ndarray:
        matrix: Any = ds.graphs.normalized_adjacency(graph).astype(np.float32)
        parts = (torch.from_numpy(np.array(part)) for part in (matrix.indptr, matrix.indices, matrix.data))
        sparse, kept = torch.sparse_csr_tensor(*parts, size=matrix.shape), [given]
        for _ in range(ORDER):
            kept.append(sparse @ kept[-1])
        return kept[-1].numpy()

    return {"PyTorch, sparse CSR": job}


def walk_step() -> None:
    """One step on 32 nodes of the random 6-regular graph of 1,000 nodes."""
    graph = ds.graphs.parity_colors(ds.graphs.random_regular(6, 1000, seed=0))
    y = ds.graphs.walk_counts(graph, np.arange(1000) % 2, [0] * (DEPTH + 1)).astype(np.float32)
    member = MessageCounter(WIDTH, 300, BATCH, STEPS, "constant", DEPTH)
    fixed = {"graph": ds.models.FeaturedGraph(graph), "y": y, "order": np.arange(1000, dtype=np.int32)}
    over = {
        "setting": {"rate": np.full(2, 0.005, np.float32), "width": np.full(2, float(WIDTH), np.float32)},
        "seed": range(2),
    }

    def ours() -> float:
        start = time.process_time()
        ds.ensemble(member, over, fixed=fixed, steps=STEPS, record=STEPS, keep=False)
        return time.process_time() - start

    first, second = ours(), ours()
    member_steps = 4 * STEPS
    rows = [
        {
            "contender": "dynascope, four members",
            "CPU ms a member-step": round(1e3 * second / member_steps, 3),
            "compile s": round(first - second, 1),
        }
    ]
    name, job = _torch_gin(graph, y)
    job(20)
    seconds = cpu_seconds(lambda: job(200)) / 200
    rows.append(
        {
            "contender": name,
            "CPU ms a member-step": round(1e3 * seconds, 3),
            "times dynascope": round(seconds * member_steps / second, 1),
        }
    )
    rows[0]["times dynascope"] = 1.0
    tell(f"walk-step: GIN-JK of depth {DEPTH} and width {WIDTH}, {BATCH} nodes, one thread", rows)


def _torch_gin(graph: ds.graphs.Graph, y: np.ndarray) -> tuple[str, Callable[[int], None]]:
    """Eager training with PyTorch: PyG's layer where it is installed, else the gather and scatter that it does."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    index = torch.from_numpy(np.stack([graph.indices, graph.rows]).astype(np.int64))
    x, targets = torch.from_numpy(np.array(graph.features, np.float32)), torch.from_numpy(y)
    dims = [2, *[WIDTH] * (DEPTH - 1)]
    mlps = [nn.Sequential(nn.Linear(dim, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()) for dim in dims]
    head = nn.Sequential(nn.Linear(2 + DEPTH * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    epsilons = nn.Parameter(torch.zeros(DEPTH))
    name, layers = "PyTorch, gather and scatter", None
    if find_spec("torch_geometric") is not None:
        from torch_geometric.nn import GINConv  # pyright: ignore[reportMissingImports]

        name, layers = "PyG, GINConv", [GINConv(mlp, train_eps=True) for mlp in mlps]
    modules = nn.ModuleList([*mlps, head, *(layers or [])])
    optimizer = torch.optim.Adam([*modules.parameters(), epsilons], lr=0.005)

    def layer(k: int, h: Any) -> Any:
        if layers is not None:
            return layers[k](h, index)
        total = torch.zeros_like(h).index_add_(0, index[1], h[index[0]])
        return mlps[k]((1 + epsilons[k]) * h + total)

    def job(steps: int) -> None:
        for _ in range(steps):
            nodes = torch.randint(0, 300, (BATCH,))
            seen = [x]
            for k in range(DEPTH):
                seen.append(layer(k, seen[-1]))
            loss = ((head(torch.cat(seen, 1))[nodes, 0] - targets[nodes]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return name, job


def block_models() -> None:
    """Normalized powers of three operators on 6,000 graphs of 250 nodes; the loop is timed on 60 of them."""
    graphs = ds.tasks.block_model_graphs(GRAPHS, 250, 5.0, 1.0, seed=0)
    few = 60
    ends = [
        np.stack([s[r < 250], r[r < 250]], 1).astype(int)
        for s, r in zip(graphs.senders[:few], graphs.receivers, strict=False)
    ]
    made = [ds.graphs.from_edges(pairs, 250) for pairs in ends]
    operators = (ds.graphs.adjacency, ds.graphs.shifted_bethe_hessian, ds.graphs.with_self_loops)

    def loop() -> None:
        for graph in made:
            for operator in operators:
                matrix, x = operator(graph).astype(np.float32), np.ones(250, np.float32)
                kept = [x]
                for _ in range(POWERS):
                    x = matrix @ x
                    x = x - x.mean()
                    x = x / np.sqrt((x * x).mean() + 1e-5)
                    kept.append(x)
                np.stack(kept, axis=1)

    def ours() -> None:
        jax.block_until_ready(ds.tasks.propagated_features(graphs, POWERS))

    ours()
    fast, slow = cpu_seconds(ours, 1), cpu_seconds(loop) * GRAPHS / few
    rows = [
        {"contender": "dynascope, propagated_features", "CPU s": round(fast, 1), "times dynascope": 1.0},
        {"contender": "scipy, a loop over graphs", "CPU s": round(slow, 1), "times dynascope": round(slow / fast, 1)},
    ]
    tell(f"block-model-features: {GRAPHS} graphs of 250 nodes, 3 operators, order {POWERS}, one thread", rows)


def _race(name: str, contenders: dict[str, Callable[[], Any]]) -> None:
    rows, reference, ours = [], None, 0.0
    for contender, job in contenders.items():
        found = np.asarray(jnp.asarray(job()))
        reference = found if reference is None else reference
        seconds = cpu_seconds(job)
        ours = ours or seconds
        apart = f"{np.max(np.abs(found - reference)) / np.max(np.abs(reference)):.0e}"
        rows.append(
            {
                "contender": contender,
                "CPU s": round(seconds, 3),
                "times dynascope": round(seconds / ours, 2),
                "apart": apart,
            }
        )
    tell(name, rows)


def main() -> None:
    features()
    walk_step()
    block_models()


if __name__ == "__main__":
    main()
