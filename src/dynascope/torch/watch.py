"""Watching a PyTorch training: probes at the steps that its loop chooses."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from dynascope import checks
from dynascope.probes.probe import Probe, Probes, name_probes
from dynascope.torch.basic import loss as loss_probe
from dynascope.torch.data import Data
from dynascope.torch.objective import Loss, Objective, Only, unwrap_optimizer
from dynascope.torch.records import Records, is_due
from dynascope.torch.snapshot import Snapshot
from dynascope.torch.undisturbed import undisturbed


class Watch:
    """Probes beside a training in PyTorch, which they do not change.

        watch = ds.torch.Watch(model, "cross-entropy", (x, y), probes={"sharpness": ds.torch.sharpness()})
        for step, batch in enumerate(loader):
            ...
            if step % 100 == 0:
                watch.record(step)
        watch.trace

    A recording leaves the mode of the modules, gradients, buffers, random states and autocast as they were: the
    training ends in the same bits with and without it. Models are measured in evaluation mode, in the precision of
    their parameters, with sums in single precision. A probe that fails is left out with a warning, and the training
    goes on.

    Args:
        model: The module that is trained. `torch.compile` and the wrappers for several devices are looked through.
        loss: How the loss comes from a model and data: "mse" or "cross-entropy"; a criterion, a module or a function of
            `torch.nn` that gets the outputs and the targets; any other function `loss(model, batch)`. None for models
            whose outputs have a loss, `model(**batch).loss`, as those of transformers do. A mean over rows.
        data: The data on which it is measured, one row for each example: `(inputs, targets)`, or any data that the loss
            takes.
        probes: Quantities to record, by name: probes of `dynascope.torch`, or functions of the model. Default: the
            loss.
        optimizer: The optimizer, for the learning rate and preconditioned curvature.
        only: Which parameters are measured: a pattern of names such as "*.lora_*", several, or a function of name and
            tensor. Default: all that require a gradient.
        rows: Rows of the data that are evaluated at a time. Default: all.
        training: Whether the model is measured in training mode, with dropout and the statistics of batches.
        last: The model at the end of the training, if it is known: `cka(..., to="last")` compares with it.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        data: Data,
        probes: Probes | None = None,
        *,
        optimizer: torch.optim.Optimizer | None = None,
        only: Only = None,
        rows: int | None = None,
        training: bool = False,
        last: torch.nn.Module | None = None,
    ) -> None:
        checks.flags(training=training)
        if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer; got {checks.shown(optimizer)}")
        if last is not None and not isinstance(last, torch.nn.Module):
            raise TypeError(f"last must be a torch.nn.Module; got {checks.shown(last)}")
        named = name_probes({"loss": loss_probe()} if probes is None else probes)
        for name, one in named.items():
            if one.measure.__module__.startswith("dynascope.probes.") and one.measure.__module__ != Probe.__module__:
                raise TypeError(f"probe {name!r} is one of dynascope.probes, for JAX; use one of dynascope.torch")
        self._objective = Objective(model, loss, data, only=only, rows=rows)
        self._optimizer = optimizer
        self._training = training
        self._records = Records(named)
        self._last = last
        self._last_step = -1
        self._seconds = 0.0
        self._saved: dict[str, Any] = {}
        with undisturbed(self._objective.model, training=training):
            self._objective.check()

    @property
    def probes(self) -> Mapping[str, Probe]:
        """The probes, by name."""
        return self._records.probes

    @property
    def steps(self) -> np.ndarray:
        """The recorded steps."""
        return np.unique(np.concatenate([np.asarray(s, int) for s in self._records.steps.values()] or [[]]))

    @property
    def last_step(self) -> int:
        """The step of the last recording; -1 before the first."""
        return self._last_step

    def use(self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Continue with another object for the same model, such as the one that a trainer has wrapped, or with the
        optimizer that it has made.

        Args:
            model: A module with the same parameters. Default: the one that is watched.
            optimizer: The optimizer. Default: the one that is watched.
        """
        if model is not None:
            self._objective.use(model)
        if optimizer is not None:
            self._optimizer = unwrap_optimizer(optimizer)

    def is_due(self, step: int) -> bool:
        """Whether a probe would record at this step.

        Args:
            step: The number of steps taken.
        """
        return any(is_due(probe, step) for probe in self.probes.values())

    def record(self, step: int) -> dict[str, float]:
        """Measure the model as it is now.

        Args:
            step: The number of steps taken, counted over all epochs: larger than at the last recording, else nothing
                is recorded, with a warning.

        Returns:
            The scalars that were recorded, by the names that they have in the trace: something to log.
        """
        step = checks.whole("step", step, at_least=0)
        if step <= self._last_step:
            warnings.warn(
                f"step must be larger than at the last recording, {self._last_step}; got {step}, nothing is recorded",
                RuntimeWarning,
                stacklevel=2,
            )
            return {}
        began = time.perf_counter()
        with undisturbed(self._objective.model, training=self._training):
            snapshot = Snapshot(self._objective.model, step, self._objective, self._optimizer, self._last)
            found = self._records.add(snapshot)
        self._last_step = step
        self._seconds += time.perf_counter() - began
        scalars: dict[str, float] = {}
        for name, value in found.items():
            for entry, part in value.items() if isinstance(value, dict) else [("value", value)]:
                if part.ndim == 0:
                    scalars[name if entry == "value" else f"{name}_{entry}"] = float(part)
        return scalars

    @property
    def trace(self) -> xr.Dataset:
        """The record so far, along `step`, with the names that `dynascope.descend` gives it. The attribute
        `run_seconds` is the time that the recordings took."""
        return self._records.trace().assign_attrs(run_seconds=self._seconds)

    def save(self, name: str, *, learning_rate: float | None = None, store: Path | str | None = None) -> Any:
        """Put the record so far into the store as the observation `observed.NAME`.

        `dynascope runs`, `compare`, `report` and `live` show it. Saved again, it replaces what this watch has saved
        under this name. If it cannot be stored, a warning says why, and the training goes on.

        Args:
            name: Its name: lower-case words with dots and dashes.
            learning_rate: The learning rate, with which the sharpness is compared with 2/η. Default: that of the probe
                `learning_rate`, if it is recorded.
            store: The folder of runs. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.

        Returns:
            The stored observation, or None if it could not be stored.
        """
        from dynascope.lab.observations import LabError, save_observation

        objective = self._objective
        settings = {"model": type(objective.model).__name__, **objective.describe()}
        try:
            saved = save_observation(
                self.trace,
                name,
                learning_rate=learning_rate,
                settings=settings,
                store=store,
                replaces=self._saved.get(name),
                device=objective.device_name,
            )
        except LabError as error:
            warnings.warn(f"watch.save stores nothing: {error}", RuntimeWarning, stacklevel=2)
            return None
        self._saved[name] = saved
        return saved

    def plot(self, names: list[str] | None = None) -> Any:
        """Draw the record, one panel for each probe.

        Args:
            names: The variables to draw. Default: all but the further entries of probes.

        Returns:
            The matplotlib figure.
        """
        from dynascope.figures import plot_trace

        return plot_trace(self.trace, names)

    def _repr_html_(self) -> str:
        """For notebooks: the probes, the time they took, small curves of each, the trace."""
        from dynascope.figures.trace import curves_table

        trace = self.trace
        head = f"<p>{escape(repr(self))}, {self._seconds:.3g} s</p>"
        return head + curves_table(trace) + trace._repr_html_()

    def __repr__(self) -> str:
        recorded = f"{len(self.steps)} recordings" + (f" up to step {self._last_step}" if self._last_step >= 0 else "")
        return f"Watch({', '.join(self.probes)}: {recorded})"
