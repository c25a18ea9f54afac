"""Eigenvalues that are there three times: what a search finds of them, and at which cost.

A linear regression with three outputs has each eigenvalue of its Hessian and of its tangent kernel three times. The
search without the check follows one Krylov space, as most do. The peer is in the optional extra: `pip install
'dynascope[bench]'`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

import dynascope as ds
from benchmarks.timing import cpu_seconds, tell
from dynascope.geometry.kernel_spectrum import kernel_operator
from dynascope.geometry.krylov import Aim, extreme_pairs

ROWS, DIM, OUTPUTS, TOLERANCE = 600, 400, 3, 1e-6
CLOSE = 1e-4
"""The relative error below which a value counts as found."""
Job = Callable[[], tuple[Any, Any, Any]]
"""The values, the number of products, and whether each value is said to have converged."""


def rows() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, DIM))


def outputs(weights: Any, x: Any) -> Any:
    return x @ weights


def hessian_jobs(k: int) -> dict[str, Job]:
    x, at = jnp.asarray(rows()), jnp.zeros((DIM, OUTPUTS))

    def loss(weights: Any) -> Any:
        return jnp.mean(outputs(weights, x) ** 2)

    def ours(checked: bool) -> Job:
        def job() -> tuple[Any, Any, Any]:
            found = ds.geometry.top_eigenpairs(loss, at, k, tolerance=TOLERANCE, checked=checked, dense=0)
            return np.asarray(found.values), int(found.products), np.asarray(found.converged)

        return job

    def exact() -> tuple[Any, Any, Any]:
        return np.linalg.eigvalsh(ds.geometry.dense_hessian(loss, at))[::-1][:k], at.size, [True]

    return {"whole matrix": exact, "one Krylov space": ours(False), "dynascope": ours(True)}


def kernel_jobs(k: int) -> dict[str, Job]:
    x, at = jnp.asarray(rows()), jnp.zeros((DIM, OUTPUTS))

    def ours() -> tuple[Any, Any, Any]:
        found = ds.geometry.kernel_eigenpairs(at, x, k, apply=outputs, formed=False, tolerance=TOLERANCE)
        return np.asarray(found.values), int(found.products), np.asarray(found.converged)

    @eqx.filter_jit
    def one_space(at: Any) -> Any:
        size, product, _ = kernel_operator(at, x, outputs, formed=False, rows=None)
        start = jax.random.normal(jax.random.key(0), (1, size))
        found = extreme_pairs(product, start, jax.random.key(1), Aim(k, "largest", TOLERANCE, 300, False))
        return found.ritz.values[:k], found.products, found.errors <= TOLERANCE * found.ritz.values[:k]

    def exact() -> tuple[Any, Any, Any]:
        kernel = np.kron(rows() @ rows().T, np.eye(OUTPUTS))
        return np.linalg.eigvalsh(kernel)[::-1][:k], ROWS * OUTPUTS, [True]

    def old() -> tuple[Any, Any, Any]:
        values, products, converged = one_space(at)
        return np.asarray(values), int(products), np.asarray(converged)

    return {"whole matrix": exact, "one Krylov space": old, "dynascope": ours}


def peer(kind: str, k: int, tolerance: float) -> Job:
    """Of the Hessian, or the Gauss-Newton matrix, whose eigenvalues are the kernel's times 2 / (rows outputs)."""
    import curvlinops
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Linear(DIM, OUTPUTS, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    x = torch.from_numpy(rows())
    data = [(x, torch.zeros(ROWS, OUTPUTS, dtype=torch.float64))]
    operator = {"Hessian": curvlinops.HessianLinearOperator, "kernel": curvlinops.GGNLinearOperator}[kind]
    scale = ROWS * OUTPUTS / 2 if kind == "kernel" else 1.0

    def job() -> tuple[Any, Any, Any]:
        made = operator(model, torch.nn.MSELoss(), list(model.parameters()), data, check_deterministic=False).to_scipy()
        count = 0

        def multiply(vector: Any) -> Any:
            nonlocal count
            count += 1
            return made.matvec(vector)

        counted = LinearOperator(shape=made.shape, dtype=made.dtype, matvec=multiply)  # pyright: ignore[reportCallIssue]
        start = np.random.default_rng(0).standard_normal(made.shape[0])
        values = eigsh(counted, k=k, which="LA", tol=tolerance, v0=start, return_eigenvectors=False)
        return scale * np.sort(values)[::-1], count, [True]

    return job


def found_of(values: np.ndarray, exact: np.ndarray) -> int:
    """How many of the largest values, copies counted, are there, in their places."""
    return int(np.sum(np.abs(values - exact) <= CLOSE * np.abs(exact)))


def main() -> None:
    warnings.simplefilter("ignore")
    table = []
    with jax.enable_x64(True):
        for what, k in (("Hessian", 1), ("Hessian", 4), ("kernel", 4)):
            jobs = hessian_jobs(k) if what == "Hessian" else kernel_jobs(k)
            for tolerance in (TOLERANCE, 0.0):
                jobs[f"curvlinops + scipy eigsh, tol {tolerance:g}"] = peer(what, k, tolerance)
            exact = jobs["whole matrix"]()[0]
            for name, job in jobs.items():
                values, products, converged = job()
                row = {"largest": f"{k} of the {what}", "search": name, "CPU s": round(cpu_seconds(job), 3)}
                row |= {"products": products, "found": f"{found_of(values, exact)} of {k}"}
                table.append(row | {"said to have converged": int(np.sum(converged)) if len(converged) == k else k})
    tell(f"repeated-spectra: {DIM * OUTPUTS} weights, {ROWS} rows, each eigenvalue {OUTPUTS} times, one thread", table)


if __name__ == "__main__":
    main()
