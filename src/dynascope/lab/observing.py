"""Measuring a folder of checkpoints: the model, the data and the loss come from a user's own files."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dynascope.lab.array_checkpoints import find_array_checkpoints, read_array_checkpoint
from dynascope.lab.errors import LabError, UsageError, nearest, one_line, plain
from dynascope.lab.importing import import_file
from dynascope.lab.monitor import Progress
from dynascope.lab.observations import observed_id, save_observation
from dynascope.lab.probe_texts import ProbeText, make_probe, read_probes
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

CRITERIA = ("mse", "cross-entropy")
MOST_WARNINGS = 5


@dataclass(frozen=True)
class Request:
    """A request for an observation, as typed."""

    checkpoints: Path
    """A folder."""
    model: str
    """FILE:FUNCTION; the function makes a model of the architecture of the checkpoints."""
    data: str | None = None
    """An .npz file, or FILE:FUNCTION; the function returns the data."""
    loss: str | None = None
    """"mse", "cross-entropy", or FILE:FUNCTION, `loss(model, batch)`. None: cross-entropy if the targets are integers,
    else mse; for data without x and y, the model's own."""
    probes: Sequence[str] = ()
    """Probes, such as `sharpness` or `top_eigenvalues(k=5)`."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the function that makes the model."""
    name: str | None = None
    """The name of the observation. None: that of the folder."""
    learning_rate: float | None = None
    """The learning rate of the training."""
    optimizer: str | None = None
    """FILE:FUNCTION; the function makes a PyTorch optimizer of the model; its state is loaded from the checkpoints."""
    command: str = ""
    """The command that makes the request."""


def observe_checkpoints(
    request: Request,
    store: Store,
    *,
    warn: Callable[[str], None] = lambda line: None,
    on_progress: Callable[[Progress], None] | None = None,
) -> StoredRun:
    """Measure a folder of checkpoints, and store the observation.

    Args:
        request: The request.
        store: The store.
        warn: Called with a line for each checkpoint that is left out, and each probe that fails.
        on_progress: Called after each checkpoint.

    Returns:
        The stored observation.

    Raises:
        UsageError: If one of the arguments is invalid. StoreError: If the store cannot be written.
    """
    observed_id(name := request.name or _slug(request.checkpoints.resolve().name))
    if request.learning_rate is not None and not 0 < request.learning_rate < np.inf:
        raise UsageError(f"--learning-rate must be positive; got {request.learning_rate:g}")
    probes = _known_probes(request.probes)
    if not request.checkpoints.is_dir():
        raise UsageError(f"the checkpoints must be a folder; there is no {request.checkpoints}")
    model = _call("--model", request.model, **request.settings)
    data = _data(request.data)
    loss_name, loss = _loss(request.loss, data)
    measure = _measure_torch if _is_torch(model) else _measure_arrays
    with _warnings() as lines, _one_line(lines):
        trace, device = measure(request, model, data, loss, probes, on_progress)
    for line in lines[:MOST_WARNINGS]:
        warn(line)
    if len(lines) > MOST_WARNINGS:
        warn(f"{len(lines) - MOST_WARNINGS} more warnings of this kind")
    settings = {
        "checkpoints": str(request.checkpoints),
        "model": request.model,
        **{key: value for key, value in request.settings.items() if key not in ("checkpoints", "model")},
        "data": request.data,
        "loss": loss_name,
        "probes": list(request.probes),
    }
    about = {"settings": settings, "learning_rate": request.learning_rate, "command": request.command}
    return save_observation(trace, name, **about, store=store, device=device)


def _measure_torch(
    request: Request,
    model: Any,
    data: Any,
    loss: Any,
    asked: Sequence[ProbeText],
    on_progress: Callable[[Progress], None] | None,
) -> tuple[xr.Dataset, str]:
    import dynascope.torch as room
    from dynascope.torch.checkpoints import find_checkpoints, read_checkpoint
    from dynascope.torch.objective import Objective

    if data is None:
        raise UsageError("give --data: a PyTorch model is measured on data even if no probe needs a loss")
    probes = {one.name: make_probe(one, room, _inputs(data)) for one in asked} or None
    found = dict(find_checkpoints(request.checkpoints))
    load = _counted(read_checkpoint, len(found), on_progress)
    optimizer = None if request.optimizer is None else _call("--optimizer", request.optimizer, model)
    trace = room.replay(model, found, loss, data, probes, optimizer=optimizer, load=load)
    return trace, Objective(model, loss, data).device_name


def _measure_arrays(
    request: Request,
    model: Any,
    data: Any,
    loss: Any,
    asked: Sequence[ProbeText],
    on_progress: Callable[[Progress], None] | None,
) -> tuple[xr.Dataset, str]:
    from dynascope import probes as room
    from dynascope.dynamics.observe import observe
    from dynascope.tasks import Supervised

    if request.optimizer is not None:
        raise UsageError("--optimizer is for models of PyTorch; the probes of JAX need none")
    probes = {one.name: make_probe(one, room, _inputs(data)) for one in asked} or None
    task = Supervised(loss) if isinstance(loss, str) else loss
    found = dict(find_array_checkpoints(request.checkpoints))
    load = _counted(lambda path: read_array_checkpoint(path, model), len(found), on_progress)
    return observe(found, task, data=data, load=load, probes=probes), ""


def _known_probes(texts: Sequence[str]) -> list[ProbeText]:
    """The requested probes, each with a known name; the user's files have not been imported yet."""
    from dynascope import probes

    try:
        return read_probes(texts, [probes])
    except UsageError:
        if find_spec("torch") is None:
            raise
        import dynascope.torch as more

        return read_probes(texts, [probes, more])


def _call(option: str, address: str, *model: object, **arguments: object) -> Any:
    """The value that a function in a user's file returns."""
    function = _function(option, address)
    try:
        return function(*model, **arguments)
    except (Exception, SystemExit) as error:  # anything may happen in a user's own function
        raise UsageError(f"{option} {plain(address)}: it fails ({one_line(error)})") from error


def _function(option: str, address: str) -> Callable[..., Any]:
    """A function in a user's file, from FILE:FUNCTION."""
    file, colon, name = address.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UsageError(f"{option} must be FILE:FUNCTION, such as train.py:make_model; got '{plain(address)}'")
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"{option} {plain(address)}: there is no file {plain(file)}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # as for a script: it may import files beside it
    try:
        module = import_file(path)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{option} {plain(address)}: the file cannot be imported ({one_line(error)})") from error
    found = getattr(module, name, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UsageError(f"{option} {plain(address)}: the file has no function '{name}'{nearest(name, known)}")
    return found


def _data(address: str | None) -> Any:
    """The arrays of an .npz file, as (x, y) if it has these, else by name; or the value that a function returns."""
    if address is None:
        return None
    if not address.endswith(".npz"):
        return _call("--data", address)
    try:
        with np.load(Path(address).expanduser(), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise UsageError(f"--data {plain(address)}: there is no such file") from None
    except Exception as error:  # zip raises many kinds for a damaged file
        raise UsageError(f"--data {plain(address)} is not a readable .npz file ({one_line(error)})") from None
    return (arrays["x"], arrays["y"]) if {"x", "y"} <= set(arrays) else arrays


def _loss(given: str | None, data: Any) -> tuple[str | None, Any]:
    """The loss and its name. By default, the kind of the targets decides."""
    if given is not None and given not in CRITERIA:
        if ":" not in given:
            allowed = "mse, cross-entropy or FILE:FUNCTION"
            raise UsageError(f"--loss must be {allowed}; got '{plain(given)}'{nearest(given, CRITERIA)}")
        return given, _function("--loss", given)
    if given is None and isinstance(data, tuple | list) and len(data) == 2:
        kind = str(getattr(data[1], "dtype", ""))
        given = "cross-entropy" if "int" in kind else "mse"
    return given, given


def _inputs(data: Any) -> Any:
    return data[0] if isinstance(data, tuple | list) else data


def _is_torch(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _slug(name: str) -> str:
    """A name in the form of an id."""
    words = "".join(sign if sign.isascii() and sign.isalnum() else " " for sign in name.lower()).split()
    return "-".join(words) or "checkpoints"


def _counted(
    read: Callable[[Path], Any], total: int, on_progress: Callable[[Progress], None] | None
) -> Callable[[Path], Any]:
    """The function that reads a checkpoint and reports the number read so far."""
    began, done = time.monotonic(), 0

    def load(path: Path) -> Any:
        nonlocal done
        if on_progress is not None:
            seconds = time.monotonic() - began
            rate = done / seconds if done and seconds > 0 else 0.0
            on_progress(Progress("checkpoints", done, total, rate, (total - done) / rate if rate else float("inf")))
        done += 1
        return read(path)

    return load


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Warnings as lines, without their places in the code."""
    lines: list[str] = []
    with warnings.catch_warnings():
        for kind in (RuntimeWarning, UserWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = lambda message, *details, **more: lines.append(str(message).partition("\n")[0])
        yield lines


@contextmanager
def _one_line(before: Sequence[str]) -> Iterator[None]:
    """An error of the measurement as one line, with the first warning before it."""
    try:
        yield
    except LabError:
        raise
    except Exception as error:  # the model, the loss and the files are a user's own
        text = str(error).strip().partition("\n")[0]
        known = isinstance(error, ValueError | TypeError | FileNotFoundError | ModuleNotFoundError)
        line = text if known and text else f"the checkpoints cannot be measured ({one_line(error)})"
        raise UsageError("; ".join([line, *before[:1]])) from error
