"""The records of probes along a training, as a trace with the names that every trace has."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from dynascope import checks
from dynascope.dynamics.schema import RESERVED, Outline, make_schema
from dynascope.probes.descriptions import describe_trace
from dynascope.probes.probe import Probe
from dynascope.torch.snapshot import Snapshot

Numbers = np.ndarray | dict[str, np.ndarray]


class Records:
    """The values of each probe, and the state that it carries from one recording to the next."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        for name in probes:
            if name in (*RESERVED, "step"):
                raise ValueError(f"probe {name!r} must have another name: every trace has its own {name!r}")
        self.probes = dict(probes)
        self.steps: dict[str, list[int]] = {name: [] for name in probes}
        self.values: dict[str, list[Numbers | None]] = {name: [] for name in probes}
        """None if a probe failed."""
        self.states: dict[str, Any] = {}
        self.coords: dict[str, Any] = {}
        self.diverged_at = -1

    def add(self, snapshot: Snapshot) -> dict[str, Numbers]:
        """Evaluate the probes that are due. One that fails is left out of this recording with a warning."""
        found: dict[str, Numbers] = {}
        for name, probe in self.probes.items():
            if not is_due(probe, snapshot.step):
                continue
            value = None
            try:
                value = found[name] = self._measure(name, probe, snapshot)
            except Exception as error:  # a measurement must not end the user's training
                reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                line = f"probe {name!r} records nothing at step {snapshot.step} ({reason})"
                warnings.warn(line, RuntimeWarning, stacklevel=_levels_to_the_user())
            self.steps[name].append(snapshot.step)
            self.values[name].append(value)
        with contextlib.suppress(RuntimeError):  # a type of numbers that has no such function
            if self.diverged_at < 0 and not all(bool(p.isfinite().all()) for p in snapshot.objective.parameters):
                self.diverged_at = snapshot.step
        return found

    def _measure(self, name: str, probe: Probe, snapshot: Snapshot) -> Numbers:
        if name not in self.states:
            state = probe.initial_state(snapshot)  # pyright: ignore[reportArgumentType]
            self.coords[name] = probe.coords(snapshot) if callable(probe.coords) else probe.coords  # pyright: ignore[reportArgumentType]
            self.states[name] = state
        value, state = probe.measure(snapshot, self.states[name])  # pyright: ignore[reportArgumentType]
        numbers = _numbers(name, value)
        others = {variable for other in self.probes if other != name for variable in self._variables(other)}
        if shared := others.intersection(_variables(name, numbers)):
            raise ValueError(f"another probe records {min(shared)!r}, too: rename one")
        before = next((known for known in self.values[name] if known is not None), None)
        if before is not None and _shapes(before) != _shapes(numbers):
            raise ValueError(f"its value must keep its shape, {_shapes(before)}; got {_shapes(numbers)}")
        self.states[name] = state
        return numbers

    def _variables(self, name: str) -> set[str]:
        """The variables that a probe has recorded."""
        first = next((value for value in self.values[name] if value is not None), None)
        return set() if first is None else _variables(name, first)

    def trace(self) -> xr.Dataset:
        """Everything that was recorded, along `step`."""
        first = {name: next((v for v in values if v is not None), None) for name, values in self.values.items()}
        seen = {name: value for name, value in first.items() if value is not None}
        probes = {name: self.probes[name] for name in seen}
        outline = Outline("step", probes, seen, self.coords, 0, 0, 0)
        recorded = {name: np.asarray(self.steps[name], np.int64) for name in seen}
        records = {name: _stack(self.values[name], like) for name, like in seen.items()}
        failed = [name for name in self.values if name not in seen and self.steps[name]]
        trace = make_schema(outline, recorded, {}).label(records, diverged_at=np.asarray(self.diverged_at))
        return describe_trace(trace, probes).assign_attrs({"failed": failed} if failed else {})


def _levels_to_the_user() -> int:
    """The `stacklevel` of a warning of the caller that names the line of the user's code."""
    frame, level, last = sys._getframe(1), 1, 1
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("dynascope."):
            last = level
        frame, level = frame.f_back, level + 1
    return last + 1


def is_due(probe: Probe, step: int) -> bool:
    """Whether a probe records at this recorded step."""
    every = probe.every
    return every is None or (step % every == 0 if isinstance(every, int) else step in np.asarray(every))


def _variables(name: str, value: Numbers) -> set[str]:
    """The names in the trace of a probe's values."""
    return {
        name if entry == "value" else f"{name}_{entry}" for entry in (value if isinstance(value, dict) else ["value"])
    }


def _numbers(name: str, value: Any) -> Numbers:
    if isinstance(value, Mapping):
        return {entry: _array(name, part) for entry, part in value.items()}
    return _array(name, value)


def _array(name: str, value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() and value.dtype.itemsize < 4 else value).numpy()
    array = np.array(value)  # a copy: weights continue to change
    if array.dtype.kind not in "biuf":
        raise TypeError(f"probe {name!r} must return numbers, or a mapping of them; got {checks.shown(value)}")
    return array


def _shapes(value: Numbers) -> Any:
    return {entry: part.shape for entry, part in value.items()} if isinstance(value, dict) else value.shape


def _stack(values: list[Numbers | None], like: Numbers) -> Any:
    """The values along a first axis, with NaN for failures of the probe."""
    if isinstance(like, dict):
        return {
            entry: _stack([v[entry] if isinstance(v, dict) else None for v in values], part)
            for entry, part in like.items()
        }
    if all(value is not None for value in values):
        return np.stack([np.asarray(value) for value in values])
    blank = np.full(like.shape, np.nan)
    return np.stack([blank if value is None else np.asarray(value, float) for value in values])
