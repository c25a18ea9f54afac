"""The search for eigenvalues on tensors: a dense Hessian, copies, scales, precisions, parts, preconditioning."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch.func import functional_call

import dynascope as ds
from dynascope.torch.krylov import Aim, extreme_pairs


def hessian(objective):
    """The whole Hessian, from products with unit vectors."""
    _, product = objective.linearize()
    rows = [product(row) for row in torch.eye(objective.size, dtype=objective.dtype)]
    return torch.stack(rows).double().numpy()


def search(values, k, *, dtype=torch.float64, which="largest", tolerance=1e-6, max_products=2000, seed=0):
    """The eigenvalues that the search finds of a matrix with these ones."""
    generator = torch.Generator().manual_seed(seed)
    size = len(values)
    basis = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64, generator=generator))[0]
    matrix = (basis * torch.as_tensor(values, dtype=torch.float64)) @ basis.T
    matrix = matrix.to(dtype)
    start = torch.randn(min(k + 1, size), size, dtype=dtype, generator=generator)
    return extreme_pairs(lambda v: matrix @ v, start, Aim(k, which, tolerance, max_products), generator)


@pytest.mark.parametrize("name", ["perceptron", "attention"])
def test_products_are_those_of_the_dense_hessian(name, networks):
    make, shape = networks[name]
    module = make().double().eval()
    data = torch.randn(9, *shape, dtype=torch.float64), torch.randn(9, 3, dtype=torch.float64)
    objective = ds.torch.Objective(module, "mse", data)
    weights = dict(module.named_parameters())

    def flat(*tensors):
        return torch.nn.functional.mse_loss(
            functional_call(module, dict(zip(weights, tensors, strict=True)), data[0]), data[1]
        )

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        blocks = torch.autograd.functional.hessian(flat, tuple(weights.values()))
        found = hessian(objective)
    sizes = [weight.numel() for weight in weights.values()]
    expected = torch.cat(
        [
            torch.cat([b.reshape(n, m) for b, m in zip(row, sizes, strict=True)], 1)
            for row, n in zip(blocks, sizes, strict=True)
        ]
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-9, atol=1e-12)


def test_parts_of_the_data_give_the_same_hessian_and_gradient():
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)).double()
    data = torch.randn(11, 4, dtype=torch.float64), torch.randn(11, 1, dtype=torch.float64)
    whole, parts = (ds.torch.Objective(module, "mse", data, rows=rows) for rows in (None, 3))
    np.testing.assert_allclose(hessian(parts), hessian(whole), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(parts.gradient(), whole.gradient(), rtol=1e-10)
    np.testing.assert_allclose(parts.linearize()[0], whole.gradient(), rtol=1e-10)
    assert float(parts()) == pytest.approx(float(whole()), rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_copies_of_repeated_eigenvalues_are_found(k):
    values = np.sort(np.concatenate([[5.0, 5 - 1e-6, 4, 4, 4], np.linspace(-1, 3, 200)]))[::-1].copy()
    for seed in range(10):
        found = search(values, k, seed=seed)
        assert found.converged.all()
        assert np.all(np.abs(found.values - values[:k]) <= found.errors)
        assert found.missed <= 1e-3


@pytest.mark.parametrize("which", ["largest", "magnitude"])
def test_in_a_cluster_no_value_is_stated_to_be_more_exact_than_the_others(which):
    """The largest is found to 1e-9, the next one to 1e-16: neither is known better than which of them is the larger."""
    generator = torch.Generator().manual_seed(0)
    values = torch.cat([torch.tensor([1 + 1e-10, 1], dtype=torch.float64), 0.5 * 0.9 ** torch.arange(148)])
    columns = torch.linalg.qr(torch.randn(150, 150, dtype=torch.float64, generator=generator))[0]
    start = columns.T[[1, 0, 2]].clone()
    start[1] += 0.01 * torch.randn(150, dtype=torch.float64, generator=generator) / 150**0.5
    matrix = (columns * values) @ columns.T
    found = extreme_pairs(lambda v: matrix @ v, start, Aim(2, which, 1e-3), generator)
    assert found.converged.all()
    assert found.residuals[0] < 1e-14
    assert np.all(np.abs(found.values - values[:2].numpy()) <= found.errors)


@pytest.mark.parametrize("negative", [-1.03, -3.5])
def test_a_search_by_magnitude_finds_a_negative_value_that_its_start_hides(negative):
    """The check sees it below the negative level, and has to point toward it."""
    values = torch.cat([torch.tensor([3, 3, 3, 1, negative]), torch.linspace(-0.8, 0.7, 145)]).double()
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        found = extreme_pairs(lambda v: values * v, torch.eye(150).double()[[0, 1, 2, 3, 9]], HIDDEN, generator)
        np.testing.assert_allclose(found.values, sorted(values.tolist(), key=abs, reverse=True)[:4], rtol=1e-3)
        assert found.converged.all()


HIDDEN = Aim(4, "magnitude", 1e-3, 300)


def test_exact_eigenvectors_of_other_values_have_the_error_of_the_values_that_may_be_missed():
    """Their residuals are zero, and yet larger values may lie within the level that the check has cleared."""
    values = 1 + 1e-5 * torch.rand(150, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start = torch.eye(150, dtype=torch.float64)[torch.argsort(values)[90:93]]
    found = extreme_pairs(lambda v: values * v, start, Aim(2, "largest", 1e-3))
    assert np.all(np.abs(found.values - np.sort(values.numpy())[::-1][:2]) <= found.errors)
    assert found.converged.all()


def test_a_start_in_the_kernel_of_a_tiny_operator_does_not_hide_its_scale():
    values = torch.tensor([1.5e-30, *np.linspace(1e-31, 1e-30, 10), *np.zeros(29)], dtype=torch.float32)
    found = extreme_pairs(lambda v: values * v, torch.eye(40)[20:22], Aim(1, "largest", 1e-4))
    np.testing.assert_allclose(found.values, 1.5e-30, rtol=1e-4)
    assert found.converged.all()


def test_a_regression_with_three_outputs_has_each_eigenvalue_three_times():
    x = torch.randn(60, 40) * torch.linspace(1, 3, 40)
    module = torch.nn.Linear(40, 3, bias=False)
    probe = ds.torch.top_eigenvalues(6, tolerance=1e-5, max_products=1000)
    watch = ds.torch.Watch(module, "mse", (x, torch.randn(60, 3)), {"top": probe})
    watch.record(0)
    expected = np.repeat(np.linalg.eigvalsh((2 / 180 * x.T @ x).numpy())[::-1][:2], 3)
    np.testing.assert_allclose(watch.trace.top[0], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["perceptron", "convolutional", "attention"])
def test_the_largest_eigenvalues_are_those_of_the_dense_hessian_and_of_curvlinops(name, networks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        curvlinops = pytest.importorskip("curvlinops", reason="curvlinops-for-pytorch is not installed")
    make, shape = networks[name]
    module = make().double().eval()
    data = torch.randn(9, *shape, dtype=torch.float64), torch.randn(9, 3, dtype=torch.float64)
    probe = ds.torch.top_eigenvalues(5, tolerance=1e-8, max_products=2000)
    watch = ds.torch.Watch(module, "mse", data, {"top": probe})
    watch.record(0)
    with warnings.catch_warnings(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        warnings.simplefilter("ignore")
        dense = hessian(ds.torch.Objective(module, "mse", data))
        operator = curvlinops.HessianLinearOperator(
            module, torch.nn.MSELoss(), list(module.parameters()), [data], check_deterministic=False
        )
        theirs = operator.to_scipy() @ np.eye(operator.shape[0])
    np.testing.assert_allclose(watch.trace.top[0], np.linalg.eigvalsh(dense)[::-1][:5], rtol=1e-7)
    np.testing.assert_allclose(watch.trace.top[0], np.linalg.eigvalsh(theirs)[::-1][:5], rtol=1e-6)


def test_repeated_eigenvalues_of_a_network_are_those_of_the_dense_hessian():
    """Equal halves of a network that meet in separate outputs have every eigenvalue twice."""
    half = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)).double()
    x = torch.randn(20, 4, dtype=torch.float64)
    y = torch.sin(x[:, :1])

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.halves = torch.nn.ModuleList([copy.deepcopy(half), copy.deepcopy(half)])

        def forward(self, x):
            return torch.cat([one(x) for one in self.halves], dim=1)

    data = x, torch.cat([y, y], dim=1)
    probe = ds.torch.top_eigenvalues(6, tolerance=1e-8, max_products=2000)
    watch = ds.torch.Watch(Twice(), "mse", data, {"top": probe})
    watch.record(0)
    single = np.linalg.eigvalsh(hessian(ds.torch.Objective(half, "mse", (x, y))))[::-1][:3]
    np.testing.assert_allclose(watch.trace.top[0], np.repeat(single / 2, 2), rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_no_scale_is_lost(scale):
    values = scale * np.concatenate([[20.0, 19.0], np.linspace(-5, 10, 150)])
    found = search(values, 2, dtype=torch.float32, tolerance=1e-4)
    np.testing.assert_allclose(found.values, values[:2], rtol=1e-4)
    assert found.converged.all()


def test_the_largest_in_size_may_be_negative():
    found = search(np.concatenate([[-9.0, 5], np.linspace(-4, 4, 100)]), 2, which="magnitude")
    np.testing.assert_allclose(found.values, [-9, 5], rtol=1e-6)


def test_what_is_not_converged_says_so():
    found = search(np.linspace(0, 1, 400), 3, max_products=8)
    assert not found.converged.any()
    assert found.missed == 1
    assert not search(
        np.array([1e-4, *np.linspace(-1e5, -1, 150)]), 1, dtype=torch.float32, max_products=60
    ).converged.any()


def test_a_model_that_has_diverged_has_no_curvature():
    module = torch.nn.Linear(50, 2)
    with torch.no_grad():
        module.weight[0, 0] = torch.nan
    watch = ds.torch.Watch(
        module, lambda m, b: (m(b[0]) ** 4).mean(), (torch.randn(5, 50),), {"s": ds.torch.sharpness()}
    )
    watch.record(3)
    assert np.isnan(watch.trace.s).all()
    assert int(watch.trace.diverged_at) == 3


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "RMSprop", "Adagrad"])
def test_preconditioned_curvature_is_that_of_the_optimizer(kind):
    """One step of the optimizer with a tiny change of the gradient's average moves by the inverse of P."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    data = torch.randn(20, 3, dtype=torch.float64), torch.randn(20, 1, dtype=torch.float64)
    optimizer = getattr(torch.optim, kind)(module.parameters(), lr=1e-2)
    for _ in range(7):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(module(data[0]), data[1]).backward()
        optimizer.step()
    state = [optimizer.state[p] for p in module.parameters()]
    if kind in ("Adam", "AdamW"):
        roots = [(1 - 0.9**7) * ((s["exp_avg_sq"] / (1 - 0.999**7)).sqrt() + 1e-8) for s in state]
    elif kind == "RMSprop":
        roots = [s["square_avg"].sqrt() + 1e-8 for s in state]
    else:
        roots = [s["sum"].sqrt() + 1e-10 for s in state]
    diagonal = torch.cat([root.reshape(-1) for root in roots]).numpy()
    whole = hessian(ds.torch.Objective(module, "mse", data))
    expected = np.linalg.eigvalsh(whole / np.sqrt(np.outer(diagonal, diagonal)))[-1]
    probes = {"s": ds.torch.sharpness(preconditioned=True, tolerance=1e-8)}
    watch = ds.torch.Watch(module, "mse", data, probes, optimizer=optimizer)
    watch.record(7)
    assert float(watch.trace.s[0]) == pytest.approx(expected, rel=1e-7)


def test_a_random_loss_is_one_function():
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Dropout(), torch.nn.Linear(6, 2))
    data = torch.randn(24, 4), torch.randn(24, 2)
    for rows in (None, 5):
        objective = ds.torch.Objective(module.train().double(), "mse", tuple(part.double() for part in data), rows=rows)
        matrix = hessian(objective)
        np.testing.assert_allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12)
        assert objective() == objective()
        before = torch.get_rng_state()
        np.testing.assert_array_equal(objective.gradient(), objective.linearize()[0])
        assert torch.equal(torch.get_rng_state(), before)


def test_parameters_that_are_left_out_are_constants():
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).double()
    data = torch.randn(9, 4, dtype=torch.float64), torch.randn(9, 2, dtype=torch.float64)
    whole = hessian(ds.torch.Objective(module, "mse", data))
    part = hessian(ds.torch.Objective(module, "mse", data, only="2.*"))
    np.testing.assert_allclose(part, whole[30:, 30:], rtol=1e-9, atol=1e-12)


def test_half_precision_is_summed_in_single_precision():
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    data = torch.randn(64, 8), torch.randn(64, 1)
    half = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(torch.bfloat16)
    half.load_state_dict(module.state_dict())
    module.load_state_dict(half.state_dict())
    values = []
    for net, inputs in ((module, data), (half, tuple(part.to(torch.bfloat16) for part in data))):
        watch = ds.torch.Watch(net, "mse", inputs, {"s": ds.torch.sharpness(tolerance=1e-2)})
        watch.record(0)
        values.append(float(watch.trace.s[0]))
    assert values[1] == pytest.approx(values[0], rel=0.05)
    assert ds.torch.Objective(half, "mse", data).gradient(tuple(p.bfloat16() for p in data)).dtype == torch.float32
