"""Saving trajectories, each to one file that is written completely or not at all and read without unpickling; and
drawing them."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope import __version__
from dynascope.checks import shown
from dynascope.dynamics import CentralFlow, Descent, Flow
from dynascope.dynamics.checkpoint import as_jax, as_numpy, fits
from dynascope.dynamics.driver import Run
from dynascope.dynamics.trajectory import Trajectory
from dynascope.figures import plot_trace
from dynascope.figures.trace import curves_table
from dynascope.lab.arrays import read_arrays, write_arrays
from dynascope.lab.netcdf import pack, unpack

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.figure import Figure

FORMAT = "dynascope-trajectory-4"
READ = (FORMAT, "dynascope-trajectory-3")
"""The formats that are read: 3, of version 0.1, has no `start` and no version."""


def save(trajectory: Trajectory, path: str | Path) -> Path:
    """Write a trajectory to `path` (with the suffix .npz): its trace, its state and its step or time."""
    if trajectory.state is None:
        raise ValueError("the state was not kept; run the ensemble with keep=True to save it")
    leaves = jax.tree_util.tree_leaves_with_path(trajectory.state)
    about = {
        "format": FORMAT,
        "at": trajectory.at,
        "statistics": dict(trajectory.statistics),
        "record": np.asarray(record).tolist() if (record := trajectory.run.record) is not None else None,
        "made_of": _inputs_checksum(trajectory.run),
        **_rule(trajectory.run),
        "leaves": [jax.tree_util.keystr(place) for place, _ in leaves],
    }
    arrays = {f"leaf{i}": as_numpy(leaf) for i, (_, leaf) in enumerate(leaves)}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    arrays["trace"] = np.frombuffer(pack(trajectory.trace), np.uint8)
    target = _target(path)
    write_arrays(target, arrays)
    return target


def plot(trajectory: Trajectory, names: Sequence[str] | None) -> Figure:
    """Draw the trace, a panel for each probe."""
    return plot_trace(trajectory.trace, names)


def as_html(trajectory: Trajectory) -> str:
    """The view of a notebook: the trajectory in a line, small curves of each probe, the trace."""
    seconds = "{run_seconds:.3g} s, {compile_seconds:.3g} s to compile".format(**trajectory.statistics)
    head = f"<p>{escape(repr(trajectory))}, {seconds}</p>"
    return head + curves_table(trajectory.trace) + trajectory.trace._repr_html_()


def load_trajectory(path: str | Path, *, like: Trajectory) -> Trajectory:
    """A trajectory that `Trajectory.save` wrote, which can be resumed. Nothing is unpickled.

    Args:
        path: The file, with or without the suffix .npz.
        like: A trajectory of the same call, which has the model, the task and the optimizer: the one that was saved,
            or, in a new session, the same call with `steps=0` (for a flow, `times=[0]`).

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, or belongs to another call than `like`: other data, settings or members, or
            another model, task, optimizer or start. The dynamics of a file that another version of JAX or dynascope
            wrote cannot be compared, which is a warning.
    """
    if not isinstance(like, Trajectory):
        raise TypeError(f"like must be a Trajectory of the same call (steps=0 is enough); got {shown(like)}")
    source = _target(path)
    try:
        arrays = read_arrays(source)
        about: dict[str, Any] = json.loads(arrays.pop("about").tobytes())
        if about["format"] not in READ:
            raise ValueError(about["format"])
        trace = unpack(arrays.pop("trace").tobytes())
        assert isinstance(trace, xr.Dataset)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no trajectory {source}") from None
    except Exception as error:  # zip, JSON and HDF5 raise many kinds for a damaged file
        raise ValueError(f"{source} is damaged, or not a trajectory file ({type(error).__name__})") from None
    leaves, structure = jax.tree.flatten(like.state)
    names = [jax.tree_util.keystr(place) for place, _ in jax.tree_util.tree_leaves_with_path(like.state)]
    if like.state is None:
        raise ValueError("the state of `like` was not kept; run it with keep=True")
    if any(name not in trace or not np.array_equal(trace[name], like.trace[name]) for name in like.run.dims):
        raise ValueError(f"{source} belongs to another call than `like`: the members differ")
    if names != about["leaves"]:
        differ = sorted(set(names) ^ set(about["leaves"]))
        raise ValueError(f"{source} belongs to another call than `like`: they differ in {shown(differ)}")
    found = [arrays[f"leaf{i}"] for i in range(len(leaves))]
    for name, kept, old in zip(names, found, leaves, strict=True):
        if not fits(kept, old):
            wanted = as_numpy(old)
            was = f"{kept.dtype} {kept.shape}, not {wanted.dtype} {wanted.shape}"
            raise ValueError(f"{source} belongs to another call than `like`: {name} is {was}")
    if about["made_of"] != _inputs_checksum(like.run):
        raise ValueError(f"{source} belongs to another call than `like`: the data, the key or the settings differ")
    rule = _rule(like.run)
    if any(about.get(name) != rule[name] for name in ("dynascope", "jax")):
        writer = f"dynascope {about.get('dynascope', '0.1')} with JAX {about['jax']}"
        warnings.warn(
            f"{source} was written by {writer}, whose update rule cannot be compared with that of `like`", stacklevel=2
        )
    elif about["rule"] != rule["rule"] or not _agree(about["start"], rule["start"]):
        differ = "the model, the task, the optimizer or the start differ"
        raise ValueError(f"{source} belongs to another call than `like`: {differ}")
    state = jax.tree.unflatten(structure, list(map(as_jax, found, leaves)))
    return Trajectory(trace, about["statistics"], state, about["at"], like.run._replace(record=about["record"]))


def _inputs_checksum(run: Run) -> str:
    """A checksum of the arrays that a run depends on: the data and the key, the settings of an ensemble."""
    process = None if run.dims else run.member(**run.fixed)
    objective = process.objective if isinstance(process, Descent | Flow | CentralFlow) else None
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(eqx.filter((objective, dict(run.settings), dict(run.fixed)), eqx.is_array_like)):
        array = as_numpy(leaf) if eqx.is_array(leaf) else np.asarray(leaf)
        digest.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _rule(run: Run) -> dict[str, Any]:
    """The dynamics of a run, or of an ensemble's first member: the versions, a checksum of the program of a step, and
    two sums of each array of the state at 0 and of each constant, whose last digits depend on the machine."""
    setting = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), dict(run.settings))
    process = run.member(**setting, **run.fixed)
    start = process.start()
    clock = jnp.arange(2, dtype=jnp.int32 if process.axis == "step" else None)
    program = jax.make_jaxpr(lambda state: process.advance(state, clock[0], clock[1]))(start)
    digest = hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", str(program.jaxpr)).encode())
    sums = []
    for leaf in jax.tree.leaves((start, program.consts)):
        array = as_numpy(leaf) if eqx.is_array(leaf) else np.asarray(leaf)
        numbers = np.nan_to_num(np.real(array).astype(float).ravel(), posinf=0.0, neginf=0.0)
        sums.append([float(np.cos(np.arange(numbers.size)) @ numbers), float(np.abs(numbers).sum())])
    return {"dynascope": __version__, "jax": jax.__version__, "rule": digest.hexdigest(), "start": sums}


def _agree(kept: Sequence[Sequence[float]], now: Sequence[Sequence[float]]) -> bool:
    """Whether sums agree to rounding: each weighted sum within 1e-4 of the sum of sizes."""
    return len(kept) == len(now) and all(
        abs(a - b) <= 1e-4 * max(size, other) for (a, size), (b, other) in zip(kept, now, strict=True)
    )


def _target(path: str | Path) -> Path:
    if not isinstance(path, str | Path) or not str(path):
        raise TypeError(f"path must be the name of a file; got {shown(path)}")
    target = Path(path).expanduser()
    return target if target.suffix == ".npz" else target.with_name(f"{target.name}.npz")
