"""Measure in the middle of a training and leave everything as it was."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE_LIBRARIES = ("cuda", "xpu", "mps")
"""Kinds of devices with random states of their own."""


@contextlib.contextmanager
def in_mode(model: torch.nn.Module, training: bool) -> Iterator[None]:
    """All modules in training or in evaluation mode, and afterwards as they were.

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
    """Evaluate a model as often as you like, inside of anybody's loop.

    Inside, gradients are on, autocast is off, matrix products have full precision, and attention has second
    derivatives. Afterwards the mode of every module, all buffers and all random states are what they were. Gradients
    of parameters are not touched, because nothing here calls `backward` on them.

    Args:
        model: The model.
        training: Whether its modules are in training mode inside, with dropout and the statistics of batches.
    """
    kinds = {parameter.device.type for parameter in model.parameters()} | {"cpu"}
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    precision = torch.get_float32_matmul_precision()
    tf32 = torch.backends.cudnn.allow_tf32
    try:
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=[]))
            for kind in kinds & set(DEVICE_LIBRARIES):
                stack.enter_context(torch.random.fork_rng(device_type=kind))
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            stack.enter_context(in_mode(model, training))
            stack.enter_context(_copied_buffers(model))
            for kind in kinds - {"meta"}:
                stack.enter_context(torch.autocast(kind, enabled=False))
            # flash attention has no second derivative
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = tf32
        torch.set_float32_matmul_precision(precision)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


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
