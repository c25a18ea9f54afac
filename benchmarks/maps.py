"""Maps of quick size: one `ensemble` each against PyTorch in a loop, of which one run of each kind is measured and the
rest extrapolated.

The library's seconds are those of the whole measurement: compilation (without what the persistent cache has), training
and recording. PyTorch's are a bare loop of eager training that records nothing, on data drawn before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from benchmarks.timing import tell

Runs = tuple[int, Callable[[], Any], int]
"""How many runs of a kind a map has, a job in PyTorch, and how many of these jobs are one run."""

TENTH = 10


def main() -> None:
    """Every map, one after another."""
    import torch

    torch.set_num_threads(1)
    warm = torch.ones(1, requires_grad=True)
    for adam in (False, True):  # the first optimizer imports for a second
        train([warm], lambda _: (warm**2).sum(), 2, 1e-3, adam)
    kinds = {
        "catapult.map": catapult,
        "concept.order-map": order,
        "concept.detour-map": detour,
        "graphs.learnability": learnability,
        "recall.phase-map": recall,
    }
    rows = []
    for id, peers in kinds.items():
        kind, seconds = measure(id)
        runs = peers(kind)
        loop = sum(count * jobs * cpu(one) for count, one, jobs in runs)
        total = sum(count for count, _, _ in runs)
        rows.append(
            {
                "map": id,
                "runs": total,
                "ensemble, CPU s": f"{seconds:.1f}",
                "PyTorch, CPU s (extrapolated)": f"{loop:.0f}",
                "ratio": f"{loop / seconds:.1f}",
            }
        )
    tell("maps: one ensemble against PyTorch in a loop, quick size, one thread", rows)


def measure(id: str) -> tuple[Any, float]:
    """The quick experiment, and the CPU seconds of its measurement."""
    from dynascope.lab.machine import precision
    from dynascope.lab.setting import Setting

    kind = Setting.parse(id, preset="quick").experiment
    with precision(kind.precision == "float64", kind.matmul_precision):
        return kind, cpu(lambda: kind.measure(0))


def cpu(job: Callable[[], Any]) -> float:
    """The CPU seconds of a job, once."""
    start = time.process_time()
    job()
    return time.process_time() - start


def train(parameters: list[Any], loss: Callable[[int], Any], steps: int, rate: float, adam: bool = False) -> None:
    """Gradient descent, or Adam with a cosine decay, on `loss(step)`."""
    import torch

    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps) if adam else None
    for step in range(steps):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()


def catapult(kind: Any) -> list[Runs]:
    """A ReLU network of two layers on one example; the quadratic model counts as much."""
    import torch

    def one() -> None:
        width = max(kind.widths)
        first = torch.randn(width, kind.dim, dtype=torch.float64, requires_grad=True)
        second = torch.randn(width, dtype=torch.float64, requires_grad=True)
        x = torch.randn(kind.dim, dtype=torch.float64)
        scale = 1 / math.sqrt(width * kind.dim)
        train([first, second], lambda _: (scale * second @ torch.relu(first @ x) - 1) ** 2 / 2, kind.steps, 1e-3)

    return [(len(kind.models) * len(kind.rates) * len(kind.widths) * kind.seeds, one, 1)]


def linear(dim: int, depth: int) -> list[Any]:
    """The matrices of a small linear network."""
    import torch

    return [(0.3 * torch.randn(dim, dim)).requires_grad_() for _ in range(depth)]


def order(kind: Any) -> list[Runs]:
    """Linear networks on shuffled batches."""
    import torch

    def one(depth: int) -> None:
        data, layers = torch.randn(2 * kind.samples, kind.dim), linear(kind.dim, depth)

        def loss(_: int) -> Any:
            x = y = data[torch.randint(len(data), (kind.batch,))]
            for layer in layers:
                y = y @ layer.T
            return ((y - x) ** 2).sum(1).mean() / 2

        train(layers, loss, kind.steps, kind.learning_rate)

    return [(len(kind.cells()) * kind.seeds, lambda depth=depth: one(depth), 1) for depth in kind.depths]


def detour(kind: Any) -> list[Runs]:
    """Linear networks on the population loss."""
    import torch

    def one(dim: int, depth: int) -> None:
        strengths, layers = torch.rand(dim), linear(dim, depth)

        def loss(_: int) -> Any:
            y = torch.eye(dim)
            for layer in layers:
                y = layer @ y
            return ((y - torch.eye(dim)) ** 2 * strengths).sum() / 2

        train(layers, loss, kind.steps, kind.learning_rate)

    runs = len(kind.ratios) * len(kind.sizes) * kind.seeds
    return [(runs, lambda d=dim, k=depth: one(d, k), 1) for dim in kind.dims for depth in kind.depths]


def learnability(kind: Any) -> list[Runs]:
    """The network of a GA-MLP on its columns, and message passing of two layers with a sparse product at all nodes."""
    import torch
    from torch import nn

    def operators() -> None:
        x, y = torch.randn(1024, 2 * (max(kind.orders) + 1)), torch.randn(1024)
        net = nn.Sequential(nn.Linear(x.shape[1], kind.width), nn.ReLU(), nn.Linear(kind.width, 1))

        def loss(_: int) -> Any:
            rows = torch.randint(1024, (kind.batch,))
            return ((net(x[rows])[:, 0] - y[rows]) ** 2).mean()

        train(list(net.parameters()), loss, kind.steps, kind.rate, adam=True)

    def messages() -> None:
        n, width = kind.nodes, kind.message_width
        rows = torch.arange(n).repeat_interleave(kind.degree)
        entries = torch.stack([rows, torch.randint(n, (len(rows),))])
        matrix = torch.sparse_coo_tensor(entries, torch.ones(len(rows)), (n, n)).to_sparse_csr()
        x, y = torch.randn(n, 2), torch.randn(n)
        layers = [block(2, width, width), block(width, width, width), block(2 + 2 * width, width, 1)]

        def loss(_: int) -> Any:
            seen, h = [x], x
            for layer in layers[:-1]:
                h = torch.relu(layer(h + matrix @ h))
                seen.append(h)
            nodes = torch.randint(n, (kind.batch,))
            return ((layers[-1](torch.cat(seen, 1)[nodes])[:, 0] - y[nodes]) ** 2).mean()

        parameters = [each for layer in layers for each in layer.parameters()]
        train(parameters, loss, kind.steps // TENTH, kind.rate, adam=True)

    def block(inputs: int, width: int, out: int) -> Any:
        return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, out))

    runs = len(kind.counts) * kind.seeds
    return [(runs * len(kind.families()), operators, 1), (runs, messages, TENTH)]


def recall(kind: Any) -> list[Runs]:
    """The one-layer model on batches that were drawn before."""
    import torch
    from torch.nn.functional import cross_entropy, one_hot

    def one(length: int) -> None:
        size = kind.tokens + 1
        tokens = torch.randint(size, (kind.batch, length))
        labels = torch.randint(size, (kind.batch,))
        score, value, feed = (torch.zeros(n, 2 * size, requires_grad=True) for n in (2 * size, size, size))

        def loss(_: int) -> Any:
            now = one_hot(tokens, size).float()
            x = torch.cat([now, torch.nn.functional.pad(now[:, :-1], (0, 0, 1, 0))], 2)
            last = x[:, -1]
            attention = torch.softmax(torch.einsum("btd,bd->bt", x, last @ score), 1)
            mean = torch.einsum("bt,btd->bd", attention, x)
            return cross_entropy(mean @ value.T + last @ feed.T, labels)

        train([score, value, feed], loss, kind.steps, kind.learning_rate)

    runs = len(kind.alphas) * kind.seeds
    return [(runs, lambda length=ratio * kind.tokens: one(length), 1) for ratio in kind.ratios]


if __name__ == "__main__":
    main()
