"""The top eigenvalue of the Hessian of an MLP of 50,000 parameters, in time and in digits.

The peers are in the optional extra: `pip install 'dynascope[bench]'`. The reference is scipy's eigsh
on curvlinops' operator in float64, from another start and with a larger basis; digits end at 15.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import eigsh

import dynascope as ds
from benchmarks.timing import cpu_seconds, tell

ROWS = 500


def setting() -> tuple[ds.models.MLP, np.ndarray, np.ndarray]:
    """A network, and the data of another one of its kind, of other weights."""
    with jax.enable_x64(False):  # the same numbers for all
        net, teacher = (
            ds.models.MLP(64, 3, width=190, out=10, key=jax.random.key(seed), activation="tanh", bias=True)
            for seed in (0, 1)
        )
        x = jax.random.normal(jax.random.key(2), (ROWS, 64))
        return net, np.asarray(x), np.asarray(3 * jax.vmap(teacher)(x))


def ours(precision: str, tolerance: float) -> tuple[float, Callable[[], float]]:
    """Seconds to compile, and the job."""
    net, x, y = setting()
    net, x, y = jax.tree.map(lambda leaf: jnp.asarray(leaf, precision), (net, x, y))

    def loss(net: Any) -> Any:
        return jnp.mean((jax.vmap(net)(x) - y) ** 2)

    def job() -> float:
        return float(ds.geometry.top_eigenpairs(loss, net, tolerance=tolerance).values[0])

    start = time.process_time()
    job()
    return time.process_time() - start, job


def torch_model(precision: str) -> tuple[Any, Any]:
    import torch

    torch.set_num_threads(1)
    net, x, y = setting()
    dtype = getattr(torch, precision)
    layers = []
    assert net.biases is not None
    for weight, bias in zip(net.weights, net.biases, strict=True):
        layer = torch.nn.Linear(*weight.shape[::-1], dtype=dtype)
        layer.weight.data = torch.tensor(np.array(weight), dtype=dtype)
        layer.bias.data = torch.tensor(np.array(bias), dtype=dtype)
        layers += [layer, torch.nn.Tanh()]
    data = [(torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype))]
    return torch.nn.Sequential(*layers[:-1]), data


def curvlinops_and_scipy(
    precision: str, tolerance: float, seed: int = 0, basis: int | None = None
) -> Callable[[], float]:
    import curvlinops
    import torch

    model, data = torch_model(precision)
    parameters = list(model.parameters())

    def job() -> float:
        operator = curvlinops.HessianLinearOperator(
            model, torch.nn.MSELoss(), parameters, data, check_deterministic=False
        ).to_scipy()
        start = np.random.default_rng(seed).standard_normal(operator.shape[0]).astype(precision)
        found = eigsh(operator, k=1, which="LA", tol=tolerance, v0=start, ncv=basis, return_eigenvectors=False)
        return float(found[0])

    return job


def hessian_eigenthings(precision: str, tolerance: float, steps: int) -> Callable[[], float]:
    import torch
    from hessian_eigenthings import HessianOperator, lanczos

    model, data = torch_model(precision)

    def loss(model: Any, batch: Any) -> Any:
        return torch.nn.functional.mse_loss(model(batch[0]), batch[1])

    def job() -> float:
        operator = HessianOperator(model, data, loss)
        return float(lanczos(operator, k=1, which="LA", tol=tolerance, max_iter=steps, seed=0).eigenvalues[0])

    return job


def main() -> None:
    warnings.simplefilter("ignore")
    exact = curvlinops_and_scipy("float64", 0, seed=1, basis=40)()
    rows = []

    def race(name: str, job: Callable[[], float], compile_seconds: float = 0.0) -> None:
        value = job()
        digits = -np.log10(max(abs(value / exact - 1), 1e-15))
        seconds = cpu_seconds(job, repeats=5)
        rows.append(
            {"contender": name, "CPU s": round(seconds, 3), "digits": round(digits, 1), "compile s": compile_seconds}
        )

    for precision, tolerance in (("float32", 1e-6), ("float32", 1e-8), ("float64", 1e-6), ("float64", 1e-14)):
        with jax.enable_x64(precision == "float64"):
            compile_seconds, job = ours(precision, tolerance)
            race(f"dynascope, {precision}, tolerance {tolerance:g}", job, round(compile_seconds, 1))
    for precision in ("float32", "float64"):
        for tolerance in (1e-3, 0.0):
            name = f"curvlinops + scipy eigsh, {precision}, tol {tolerance:g}{'' if tolerance else ' (default)'}"
            race(name, curvlinops_and_scipy(precision, tolerance))
    for precision, steps in (("float32", 20), ("float64", 20), ("float64", 40)):
        race(f"hessian-eigenthings, {precision}, {steps} steps", hessian_eigenthings(precision, 1e-4, steps))
    tell(f"top-eigenvalue: MLP of 50,550 parameters, {ROWS} rows, one thread", rows)


if __name__ == "__main__":
    main()
