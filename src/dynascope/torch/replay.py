"""Probes over the checkpoints of a finished PyTorch training."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import xarray as xr

from dynascope import checks
from dynascope.dynamics.monitor import current_monitor
from dynascope.probes.probe import Probes, name_probes
from dynascope.torch.checkpoints import Checkpoint, find_checkpoints, fit_names, read_checkpoint, unpack
from dynascope.torch.data import Data
from dynascope.torch.objective import Loss, Only, unwrap
from dynascope.torch.watch import Watch


def replay(
    model: torch.nn.Module,
    checkpoints: str | Path | Iterable[Any] | Mapping[int, Any],
    loss: Loss,
    data: Data,
    probes: Probes | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    load: Callable[[Any], Any] | None = None,
    only: Only = None,
    rows: int | None = None,
    training: bool = False,
) -> xr.Dataset:
    """Measure the checkpoints of a training.

    One checkpoint at a time is in memory. One that cannot be read, or does not fit the model, is left out with a
    warning. The model itself is not changed.

    Args:
        model: A module of the architecture of the checkpoints, on the device that measures them.
        checkpoints: A folder; paths; or a mapping from steps to paths, state dicts, or items for `load`. Files may be
            state dicts, alone or among other things, safetensors, folders of Hugging Face, and those of Lightning.
        loss: How the loss comes from a model and data; see `Watch`.
        data: The data on which it is measured; see `Watch`.
        probes: Quantities to record, by name; see `Watch`.
        optimizer: An optimizer of `model`, into which the state that a checkpoint holds is loaded; for preconditioned
            curvature.
        load: Makes a state dict of an item, such as `lambda path: torch.load(path)["weights"]`.
        only: Which parameters are measured; see `Watch`.
        rows: Rows of the data that are evaluated at a time. Default: all.
        training: Whether the model is measured in training mode.

    Returns:
        The trace, as `Watch` has it. The attribute `left_out` lists the steps without a model.
    """
    items = _numbered(checkpoints)
    probes = None if probes is None else name_probes(probes)
    ours, twin = _twin(unwrap(model), optimizer)
    left_out: list[int] = []
    last = None
    if probes is not None and any(getattr(probe, "wants_last", False) for probe in probes.values()):
        items = list(items)
        last = _last_model(ours, [item for _, item in items], load)
    watch = Watch(ours, loss, data, probes, optimizer=twin, only=only, rows=rows, training=training, last=last)
    total = len(items) if isinstance(items, list) else 0
    for done, (step, item) in enumerate(items):
        current_monitor().progress(done, total, "checkpoints")
        try:
            _fill(ours, twin, _read(item, load))
        except Exception as error:  # one bad file must not end the evaluation of the others
            left_out.append(step)
            reason = str(error).partition("\n")[0] or type(error).__name__
            warnings.warn(f"replay: the checkpoint of step {step} is left out ({reason})", stacklevel=2)
            continue
        watch.record(step)
    if len(watch.steps) == 0:
        raise ValueError("checkpoints must hold at least one that fits the model; all of them were left out")
    return watch.trace.assign_attrs(left_out=left_out)


def _numbered(checkpoints: Any) -> Iterable[tuple[int, Any]]:
    if isinstance(checkpoints, Mapping):
        return sorted((checks.whole("checkpoints", step, at_least=0), item) for step, item in checkpoints.items())
    if isinstance(checkpoints, str | Path):
        return find_checkpoints(checkpoints)
    if not isinstance(checkpoints, Iterable):
        raise TypeError(
            f"checkpoints must be a folder, a list, or a mapping from steps; got {checks.shown(checkpoints)}"
        )
    items = list(checkpoints) if isinstance(checkpoints, list | tuple) else checkpoints
    if isinstance(items, list) and items and all(isinstance(item, str | Path) for item in items):
        return find_checkpoints(items)
    return enumerate(items)


def _twin(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer | None
) -> tuple[torch.nn.Module, torch.optim.Optimizer | None]:
    """Copies of the model and of its optimizer, which then holds the copy's parameters."""
    ours = copy.deepcopy(model)
    if optimizer is None:
        return ours, None
    there = {id(one): other for one, other in zip(model.parameters(), ours.parameters(), strict=True)}
    return ours, copy.deepcopy(optimizer, there)


def _read(item: Any, load: Callable[[Any], Any] | None) -> Checkpoint:
    found = item if load is None else load(item)
    if isinstance(found, Checkpoint):
        return found
    if isinstance(found, torch.nn.Module):
        return Checkpoint(found.state_dict())
    return read_checkpoint(found) if isinstance(found, str | Path) else unpack(found, "the checkpoint")


def _fill(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, checkpoint: Checkpoint) -> None:
    """Load the weights, all or none."""
    own = model.state_dict()
    found = fit_names(checkpoint.weights, own)
    tied = {name: own[name].data_ptr() for name in own}
    here = {tied[name] for name in found if name in tied}
    missing = [name for name in own if name not in found and tied[name] not in here]
    extra = [name for name in found if name not in own]
    for names, what in ((missing, "missing"), (extra, "no parameter of the model")):
        if names:
            raise ValueError(f"its parameters are not those of the model: {names[0]} is {what}")
    for name, value in found.items():
        if value.shape != own[name].shape:
            raise ValueError(f"{name} is {tuple(value.shape)}, in the model {tuple(own[name].shape)}")
        if value.is_meta:
            raise ValueError(f"{name} holds no numbers; it is on the device meta")
    model.load_state_dict(found, strict=False)
    if optimizer is not None and checkpoint.optimizer is not None:
        optimizer.load_state_dict(dict(checkpoint.optimizer))


def _last_model(model: torch.nn.Module, items: list[Any], load: Callable[[Any], Any] | None) -> torch.nn.Module | None:
    """The model of the last checkpoint that can be used."""
    last = copy.deepcopy(model)
    for item in reversed(items):
        with contextlib.suppress(Exception):  # the warning comes in its turn
            _fill(last, None, _read(item, load))
            return last
    return None
