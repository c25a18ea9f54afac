"""Measure in the middle of a training and leave everything as it was."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE_LIBRARIES = ("cuda", "xpu", "mps")
"""Kinds of devices with random states of their own."""


@contextlib.contextmanager
def in_mode(model: torch.nn.Module, training: bool) -> Iterator[None]:
    """Put all modules into training or evaluation mode, and restore them afterwards.

    Args:
        model: The model.
        training: Whether that is training mode.
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in modes:
            module.training = training
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module, *, training: bool = False) -> Iterator[None]:
    """Evaluate a model any number of times inside of a user's loop, without side effects.

    Inside, gradients are on, autocast and compilation are off, matrix products have full precision, and attention has
    second derivatives. Afterwards the mode of every module, all buffers and all random states are what they were.
    Gradients of parameters are not touched, because nothing here calls `backward` on them.

    Args:
        model: The model.
        training: Whether its modules are in training mode inside, with dropout and the statistics of batches.
    """
    kinds = {parameter.device.type for parameter in model.parameters()} | {"cpu"}
    with contextlib.ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        stack.enter_context(kept_random_states(model))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_full_precision())
        stack.enter_context(_differentiable_twice(model))
        stack.enter_context(in_mode(model, training))
        stack.enter_context(_copied_buffers(model))
        for kind in kinds - {"meta"}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextlib.contextmanager
def kept_random_states(model: torch.nn.Module) -> Iterator[None]:
    """Restore PyTorch's random states afterwards, on the host and on the devices of a model.

    Args:
        model: The model.
    """
    devices: dict[str, set[int]] = {}
    for parameter in model.parameters():
        devices.setdefault(parameter.device.type, set()).add(parameter.device.index or 0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        for kind in devices.keys() & set(DEVICE_LIBRARIES):
            stack.enter_context(torch.random.fork_rng(sorted(devices[kind]), device_type=kind))
        yield


@contextlib.contextmanager
def _full_precision() -> Iterator[None]:
    """Products of matrices and convolutions in the precision of their type, not in TF32 or bfloat16."""
    backends: Any = torch.backends
    operations = (
        *(backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn),
        *(backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn),
    )
    before = [operation.fp32_precision for operation in operations]
    try:
        for operation in operations:
            operation.fp32_precision = "ieee"
        yield
    finally:
        for operation, precision in zip(operations, before, strict=True):
            operation.fp32_precision = precision


@contextlib.contextmanager
def _differentiable_twice(model: torch.nn.Module) -> Iterator[None]:
    """Kernels with second derivatives: flash attention, compiled modules and recurrent layers of cuDNN have none."""
    cudnn = torch.backends.cudnn
    enabled = cudnn.enabled
    try:
        if any(isinstance(module, torch.nn.RNNBase) for module in model.modules()):
            cudnn.enabled = False
        with contextlib.ExitStack() as stack:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            if "torch._dynamo" in sys.modules:  # otherwise nothing is compiled, and importing it is slow
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            yield
    finally:
        cudnn.enabled = enabled


@contextlib.contextmanager
def _copied_buffers(model: torch.nn.Module) -> Iterator[None]:
    """Copies in place of the buffers: the training may still need them for its backward pass, unchanged."""
    places = [
        (module._buffers, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    copies: dict[int, torch.Tensor] = {}
    try:
        for buffers, name, buffer in places:
            buffers[name] = copies.setdefault(id(buffer), buffer.detach().clone())
        yield
    finally:
        for buffers, name, buffer in places:
            buffers[name] = buffer
