"""A training ends in the same bits with and without a watch."""

from __future__ import annotations

import copy
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import dynascope as ds

EVERYTHING = {
    "loss": ds.torch.loss(),
    "sharpness": ds.torch.sharpness(max_products=20),
    "batch": ds.torch.batch_sharpness(4, draws=2),
    "noise": ds.torch.gradient_noise(rows=4),
    "density": ds.torch.hessian_density(np.linspace(-1, 1, 3), 0.3, draws=2, degree=4),
    "ranks": ds.torch.weight_ranks(),
    "updates": ds.torch.weight_updates(),
    "kernel": ds.torch.kernel_norm(torch.randn(3, 6)),
    "agop": ds.torch.agop_alignment(),
    "cka": ds.torch.cka("*"),
    "inside": ds.torch.activations("*"),
    "own": lambda model: model(torch.randn(2, 6)).sum() + random.random() + np.random.rand(),  # noqa: NPY002
}


def network():
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2)
    )


def train(kind, *, watched, autocast=False, workers=0, mode=False):
    """The weights, buffers, gradients and random draws at the end of a training."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    model = network()
    x, y = torch.randn(32, 6), torch.randn(32, 2)
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=1e-2)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True, num_workers=workers)
    watch = ds.torch.Watch(model, "mse", (x, y), EVERYTHING, optimizer=optimizer, training=mode)
    step = 0
    for _ in range(2):
        for batch, targets in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                loss = torch.nn.functional.mse_loss(model(batch).float(), targets)
                if watched and step % 3 == 0:
                    watch.record(step)
            loss.backward()
            if watched and step == 4:
                watch.record(step)
            optimizer.step()
            step += 1
    draws = torch.rand(1), random.random(), np.random.rand()  # noqa: NPY002
    return model, draws, [module.training for module in model.modules()], watch


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {}),
        ("AdamW", {}),
        ("AdamW", {"mode": True}),
        ("SGD", {"autocast": True}),
        pytest.param("AdamW", {"workers": 1}, marks=pytest.mark.slow),
    ],
)
def test_a_training_ends_in_the_same_bits(kind, options):
    alone, draws, modes, _ = train(kind, watched=False, **options)
    beside, draws_beside, modes_beside, watch = train(kind, watched=True, **options)
    for name, value in alone.state_dict().items():
        assert torch.equal(value, beside.state_dict()[name]), name
    for one, other in zip(alone.parameters(), beside.parameters(), strict=True):
        assert one.grad is not None
        assert torch.equal(one.grad, other.grad)
        assert one.requires_grad == other.requires_grad
    assert draws[1:] == draws_beside[1:]
    assert torch.equal(draws[0], draws_beside[0])
    assert modes == modes_beside
    assert watch.trace.attrs.get("failed") is None
    assert watch.trace.sizes["step"] == 4
    assert np.isfinite(watch.trace.sharpness).all()


def test_it_measures_under_no_grad_and_inference_mode():
    model = network()
    data = torch.randn(8, 6), torch.randn(8, 2)
    for step, context in enumerate((torch.no_grad, torch.inference_mode)):
        with context():
            watch = ds.torch.Watch(model, "mse", data, {"sharpness": ds.torch.sharpness()})
            watch.record(step)
            assert np.isfinite(watch.trace.sharpness).all()


def test_settings_of_precision_and_devices_are_kept():
    model, data = network(), (torch.randn(8, 6), torch.randn(8, 2))
    probes = {name: EVERYTHING[name] for name in ("sharpness", "batch", "density", "kernel", "agop", "inside")}
    matmul, before = torch.backends.cuda.matmul, torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        with torch.device("meta"):  # a default device of the training
            watch = ds.torch.Watch(model, "mse", data, probes)
            watch.record(0)
        assert torch.get_float32_matmul_precision() == "high"
        matmul.fp32_precision = "ieee"  # the newer of two ways to say it
        watch.record(1)
        assert matmul.fp32_precision == "ieee"
    finally:
        torch.set_float32_matmul_precision(before)
    assert watch.trace.attrs.get("failed") is None


def test_a_compiled_module_is_measured():
    model, data = network(), (torch.randn(8, 6), torch.randn(8, 2))
    plain = ds.torch.Watch(model, "mse", data, {"sharpness": ds.torch.sharpness()}).record(0)
    model.compile(backend="aot_eager")  # its backward pass has no derivative
    watch = ds.torch.Watch(model, "mse", data, {"sharpness": ds.torch.sharpness()})
    assert watch.record(0) == plain


def test_no_memory_stays_behind():
    model = network()
    data = torch.randn(8, 6), torch.randn(8, 2)
    watch = ds.torch.Watch(model, "mse", data, {"sharpness": ds.torch.sharpness(), "kernel": ds.torch.kernel_norm()})
    watch.record(0)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model._forward_hooks
    copied = copy.deepcopy(model)  # graphs that were left would refuse
    assert torch.equal(copied[0].weight, model[0].weight)


def test_jax_does_not_start_beside_a_training():
    """It would take memory of the GPU, and warn of every worker of a data loader."""
    program = """
import torch, dynascope as ds
model, data = torch.nn.Linear(40, 2), (torch.randn(9, 40), torch.randn(9, 2))
probes = {"s": ds.torch.sharpness(), "k": ds.torch.kernel_norm(), "d": ds.torch.hessian_density([0.0, 1.0], 0.1)}
watch = ds.torch.Watch(model, "mse", data, probes)
watch.record(0)
watch.trace
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
