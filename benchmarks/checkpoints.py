"""Eleven checkpoints of a convolutional network on handwritten digits: sharpness, five eigenvalues, kernel, ranks.

Times hold all that a user waits for: reading the files, converting the module, compiling. The peers measure the same
files: curvlinops with scipy's eigsh and hessian-eigenthings the five eigenvalues; the metrics of pico-analyze that
coincide with ours (CKA, norms, effective rank, sparsity of representations and weights) are written anew as plain
functions. Eigenvalues are compared with scipy's in double precision. The peers are in `pip install 'dynascope[bench]'`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import eigsh

import dynascope as ds
from benchmarks.timing import tell

ROWS, IN_KERNEL, K, TOLERANCE = 512, 64, 5, 1e-3
RUNS = int(os.environ.get("CHECKPOINT_RUNS", "3"))
LAYERS = ["0", "2", "3", "5"]
"""Both convolutions and what the pools make of them."""


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(144, 10),
    )  # fmt: skip


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    data = ds.tasks.data.datasets.load("digits")
    x = torch.tensor(np.asarray(data.x_train[:ROWS])).float()[:, None, ::2, ::2]
    return (x - x.mean()) / x.std(), torch.tensor(np.asarray(data.y_train[:ROWS])).long()


def train(folder: Path) -> None:
    """Leave the checkpoints of a thousand steps of SGD."""
    model, (x, y) = network(), digits()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(1001):
        if step % 100 == 0:
            torch.save(model.state_dict(), folder / f"step_{step}.pt")
        rows = torch.randint(ROWS, (64,))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()


def states(folder: Path) -> Iterator[dict[str, Any]]:
    for step in range(0, 1001, 100):
        yield torch.load(folder / f"step_{step}.pt", weights_only=True)


def with_torch(folder: Path, probes: dict[str, Any]) -> Any:
    return ds.torch.replay(network(), folder, "cross-entropy", digits(), probes)


def everything_in_torch(folder: Path) -> np.ndarray:
    x = digits()[0][:IN_KERNEL]
    probes = {
        "sharpness": ds.torch.sharpness(tolerance=TOLERANCE),
        "top": ds.torch.top_eigenvalues(K, tolerance=TOLERANCE),
        "kernel": ds.torch.kernel_distance(x),
        "ranks": ds.torch.weight_ranks(),
    }
    return with_torch(folder, probes).top.values


def everything_in_jax(folder: Path) -> np.ndarray:
    import jax.numpy as jnp

    model = ds.models.from_torch(network())
    x, y = (jnp.asarray(part.numpy()) for part in digits())
    probes = {
        "sharpness": ds.probes.sharpness(tolerance=TOLERANCE),
        "top": ds.probes.top_eigenvalues(K, tolerance=TOLERANCE),
        "kernel": ds.probes.kernel_distance(x[:IN_KERNEL]),
        "ranks": ds.probes.weight_ranks(),
    }
    paths = {step: folder / f"step_{step}.pt" for step in range(0, 1001, 100)}
    trace = ds.observe(
        paths,
        ds.tasks.Supervised("cross-entropy"),
        data=(x, y),
        load=lambda path: model.with_state_dict(torch.load(path, weights_only=True)),
        probes=probes,
    )
    return trace.top.values


def eigenvalues_in_torch(folder: Path) -> np.ndarray:
    return with_torch(folder, {"top": ds.torch.top_eigenvalues(K, tolerance=TOLERANCE)}).top.values


def curvlinops_and_scipy(folder: Path, dtype: torch.dtype = torch.float32, tolerance: float = TOLERANCE) -> np.ndarray:
    import curvlinops

    model, (x, y) = network().to(dtype), digits()
    rows = []
    for state in states(folder):
        model.load_state_dict(state)
        operator = curvlinops.HessianLinearOperator(
            model, torch.nn.CrossEntropyLoss(), list(model.parameters()), [(x.to(dtype), y)], check_deterministic=False
        ).to_scipy()
        start = np.random.default_rng(0).standard_normal(operator.shape[0]).astype(operator.dtype)
        found = eigsh(operator, k=K, which="LA", tol=tolerance, v0=start, return_eigenvectors=False)
        rows.append(np.sort(found)[::-1])
    return np.array(rows)


def hessian_eigenthings(folder: Path, steps: int | None = None) -> np.ndarray:
    from hessian_eigenthings import HessianOperator, lanczos

    model, data = network(), [digits()]

    def loss(model: Any, batch: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])

    rows = []
    for state in states(folder):
        model.load_state_dict(state)
        found = lanczos(HessianOperator(model, data, loss), k=K, which="LA", tol=TOLERANCE, max_iter=steps, seed=0)
        rows.append(np.sort(np.asarray(found.eigenvalues))[::-1])
    return np.array(rows)


def metrics_in_torch(folder: Path) -> np.ndarray:
    probes = {
        "alike": ds.torch.cka(LAYERS),
        "inside": ds.torch.activations(LAYERS),
        "ranks": ds.torch.weight_ranks(),
    }
    trace = with_torch(folder, probes)
    names = "alike", "inside_sparsity", "inside", "inside_norm", "ranks_effective", "ranks_norm"
    return np.concatenate([trace[name].values for name in names], axis=1)


def metrics_as_in_pico_analyze(folder: Path) -> np.ndarray:
    """CKA to the first checkpoint, sparsity, effective rank and norm of layers; the last two of the weights, too."""
    model, (x, _) = network(), digits()
    first: dict[str, np.ndarray] = {}
    rows = []
    for state in states(folder):
        model.load_state_dict(state)
        outputs: dict[str, np.ndarray] = {}

        def keep(name: str, outputs: dict[str, np.ndarray] = outputs) -> Callable[..., None]:
            return lambda module, given, out: outputs.update({name: out.detach().double().flatten(1).numpy()})

        hooks = [model.get_submodule(name).register_forward_hook(keep(name)) for name in LAYERS]
        with torch.no_grad():
            model(x)
        for hook in hooks:
            hook.remove()
        first = first or outputs
        weights = [value.flatten(1).double().numpy() for value in model.state_dict().values() if value.ndim > 1]
        layers = [outputs[name] for name in LAYERS]
        rows.append(
            [linear_cka(layer, first[name]) for name, layer in zip(LAYERS, layers, strict=True)]
            + [float(np.mean(layer == 0)) for layer in layers]
            + [effective_rank(layer - layer.mean(axis=0)) for layer in layers]
            + [float(np.sqrt(np.mean(np.sum(layer**2, axis=1)))) for layer in layers]
            + [effective_rank(weight) for weight in weights]
            + [float(np.linalg.norm(weight, 2)) for weight in weights]
        )
    return np.array(rows)


def linear_cka(a: np.ndarray, b: np.ndarray) -> float:
    """From the features' inner products, as the formula is printed."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    return float(np.linalg.norm(a.T @ b) ** 2 / np.linalg.norm(a.T @ a) / np.linalg.norm(b.T @ b))


def effective_rank(matrix: np.ndarray) -> float:
    """The exponential of the entropy of the shares of the squared singular values."""
    squares = np.linalg.svd(matrix, compute_uv=False) ** 2
    shares = squares[squares > 0] / np.sum(squares)
    return float(np.exp(-np.sum(shares * np.log(shares))))


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder)
        exact = curvlinops_and_scipy(folder, torch.float64, 1e-8)
        metrics = metrics_as_in_pico_analyze(folder)
        contenders: dict[str, tuple[str, Callable[[Path], np.ndarray], np.ndarray]] = {
            "dynascope in torch, everything": ("replay", everything_in_torch, exact),
            "dynascope in JAX, everything": ("observe", everything_in_jax, exact),
            "dynascope in torch, five eigenvalues": ("replay", eigenvalues_in_torch, exact),
            "curvlinops + scipy eigsh, five eigenvalues": ("loop", curvlinops_and_scipy, exact),
            "hessian-eigenthings, five eigenvalues": ("loop", hessian_eigenthings, exact),
            "the same with 30 steps": ("loop", lambda folder: hessian_eigenthings(folder, 30), exact),
            "dynascope in torch, CKA, sparsity, ranks, norms": ("replay", metrics_in_torch, metrics),
            "the same as plain functions": ("loop", metrics_as_in_pico_analyze, metrics),
        }
        rows = []
        for contender, (by, job, expected) in contenders.items():
            times, found = [], expected
            for _ in range(RUNS):
                start = time.process_time()
                found = job(folder)
                times.append(time.process_time() - start)
            rows.append(
                {
                    "contender": contender,
                    "by": by,
                    "CPU s, first": round(times[0], 2),
                    "CPU s, median": round(statistics.median(times), 2),
                    "largest error": f"{np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1e-9)):.0e}",
                }
            )
    size = sum(parameter.numel() for parameter in network().parameters())
    tell(f"checkpoints: eleven of a network of {size} parameters, {ROWS} images, one thread", rows)


if __name__ == "__main__":
    main()
