"""The summary of a sweep: its dataset, tables of its claims and numbers, and a figure of each."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from dynascope import __version__
from dynascope.lab.errors import explain_os_error
from dynascope.lab.files import checksum, write_atomically
from dynascope.lab.json_text import digest_of, pretty
from dynascope.lab.locks import lock
from dynascope.lab.netcdf import pack
from dynascope.lab.run_folders import SWEEPS, UNFINISHED, publish, settle
from dynascope.lab.sweeps.gathering import OWN, shares
from dynascope.lab.sweeps.plan import Plan

FORMAT = 2
MOST_SERIES = 8
"""The most values of a run's own dimensions (settings, layers) that are tabulated and drawn, one line for each."""


@dataclass(frozen=True)
class Number:
    """A reduced number over the grid and `at` (its further dimensions): its mean over seeds, with a 95 % interval,
    Student's of a mean and Wilson's of a share, the mean of outcomes that are 0 or 1."""

    name: str
    mean: xr.DataArray
    low: xr.DataArray
    high: xr.DataArray
    of: xr.DataArray


def numbers(data: xr.Dataset) -> Iterator[Number]:
    """The reduced numbers that can be tabulated: real ones, with few values beside those that are averaged."""
    keys = grid_keys(data)
    for name, found in data.data_vars.items():
        repeats = [dim for dim in ("seed", "seed_of_run") if dim in found.dims]
        further = [dim for dim in found.dims if dim not in (*keys, *repeats)]
        size = int(np.prod([found.sizes[dim] for dim in further]))
        if name in OWN or found.dtype.kind == "c" or not 0 < size <= MOST_SERIES:
            continue
        values = found.transpose(*keys, *further, *repeats)
        stacked = values.values.reshape(*(found.sizes[key] for key in keys), size, -1)
        places = np.ndindex(*(found.sizes[dim] for dim in further))
        texts = [", ".join(_at(values, dim, k) for dim, k in zip(further, place, strict=True)) for place in places]
        yield Number(str(name), *_mean(stacked, keys, data, texts))


def _mean(values: np.ndarray, keys: Sequence[str], data: xr.Dataset, at: Sequence[str]) -> Iterator[xr.DataArray]:
    of, mean, deviation = _moments(values, -1)
    if np.isin(values[np.isfinite(values)], (0, 1)).all():  # outcomes: the mean is a share
        _, low, high = shares(values, -1)
    else:
        half = np.where(of > 1, stdtrit(np.maximum(of - 1, 1), 0.975) * deviation / np.sqrt(np.maximum(of, 1)), np.nan)
        low, high = mean - half, mean + half
    coords = {**{key: data[key].values for key in keys}, "at": np.array(at, dtype=str)}
    for found in (mean, low, high, of):
        yield xr.DataArray(found, coords, (*keys, "at"))


def _moments(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number of finite values along an axis, their mean and their standard deviation; NaN if there are too few."""
    finite = np.isfinite(values)
    of = finite.sum(axis)
    mean = np.divide(np.where(finite, values, 0.0).sum(axis), of, out=np.full(of.shape, np.nan), where=of > 0)
    squares = np.where(finite, (values - np.expand_dims(mean, axis)) ** 2, 0.0).sum(axis)
    return of, mean, np.sqrt(np.divide(squares, of - 1, out=np.full(of.shape, np.nan), where=of > 1))


def grid_keys(data: xr.Dataset) -> list[str]:
    """The keys of the grid of a sweep's dataset."""
    return [str(dim) for dim in data.share.dims if dim != "claim"]


def claim_rows(data: xr.Dataset) -> list[dict[str, object]]:
    """For each point and claim: the share of runs in which it held, its interval, the number of runs, and the measured
    number."""
    claims = data.claim.values.tolist()
    columns = {name: data[name].values for name in ("share", "low", "high")} | {"of": data.holds.count("seed").values}
    _, mean, deviation = _moments(data.measured.values, -2)
    rows = []
    for row, place in _points(data.share):
        row |= {"claim": claims[place[-1]], **{name: column[place].item() for name, column in columns.items()}}
        rows.append(row | {"mean": _finite(mean[place]), "sd": _finite(deviation[place])})
    return rows


def number_rows(data: xr.Dataset) -> Iterator[dict[str, object]]:
    """For each reduced number and point: its mean over seeds with its interval, and the number of values."""
    for number in numbers(data):
        at = number.mean["at"].values.tolist()
        columns = {name: getattr(number, name).values for name in ("mean", "low", "high", "of")}
        for row, place in _points(number.mean):
            row |= {"number": number.name, "at": at[place[-1]]}
            yield row | {name: column[place].item() for name, column in columns.items()}


def write_summary(asked: Plan, data: xr.Dataset, gaps: Mapping[int, str]) -> Path:
    """Write `sweeps/<digest>/` with `sweep.nc`, the tables, the figures and a manifest; return the folder. `gaps` are
    the lines of runs that did not finish, by their numbers.

    Nothing is written if all files exist.
    """
    final = asked.store.root / asked.kind.id / SWEEPS / digest_of(asked.question)
    errors = [{"point": asked.point(k), "seed": asked.seed(k), "error": line} for k, line in gaps.items()]
    rows = claim_rows(data)
    texts: dict[str, bytes | str] = {
        "sweep.nc": pack(data),
        "sweep.json": pretty({**asked.question, "left_out": data.attrs["left_out"], "rows": rows, "gaps": errors}),
        "claims.csv": _csv(rows),
        "numbers.csv": _csv(number_rows(data)),
    }
    sums = {name: checksum(text.encode() if isinstance(text, str) else text) for name, text in texts.items()}
    if _is_there(final, sums):
        return final
    try:
        with lock(final.with_name(final.name + ".lock")):
            if not _is_there(final, sums):
                _write(final, asked, data, texts)
    except OSError as error:
        raise explain_os_error(error, f"writing the summary of the sweep of {asked.kind.id}") from error
    return final


def _write(final: Path, asked: Plan, data: xr.Dataset, texts: Mapping[str, bytes | str]) -> None:
    from dynascope.lab.sweeps.figures import draw

    draft = final.with_name(final.name + UNFINISHED)
    settle(final)
    shutil.rmtree(draft, ignore_errors=True)
    for name, text in texts.items():
        write_atomically(draft / name, text)
    figures = []
    for figure in draw(data):
        write_atomically(draft / "figures" / f"{figure.name}.svg", figure.svg)
        figures.append({"name": figure.name, "title": figure.title, "width": figure.width, "height": figure.height})
    paths = sorted(path for path in draft.rglob("*") if path.is_file())
    files = {path.relative_to(draft).as_posix(): checksum(path) for path in paths}
    head = {"format": FORMAT, "status": "complete", **asked.question, "runs": asked.total, "title": asked.kind.title()}
    head["command"] = asked.command
    write_atomically(
        draft / "manifest.json", pretty({**head, "dynascope": __version__, "figures": figures, "files": files})
    )
    publish(draft, final)


def _is_there(final: Path, sums: Mapping[str, str]) -> bool:
    """Whether the stored summary has these files, and this version has drawn its figures."""
    try:
        manifest = json.loads((final / "manifest.json").read_text(encoding="utf-8"))
        same = manifest["dynascope"] == __version__ and manifest["format"] == FORMAT
        intact = all(checksum(final / name) == sum for name, sum in manifest["files"].items())
        return same and intact and all(manifest["files"].get(name) == sum for name, sum in sums.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _points(array: xr.DataArray) -> Iterator[tuple[dict[str, object], tuple[int, ...]]]:
    """Each index of an array over the grid, with the values of the keys there."""
    keys = [str(dim) for dim in array.dims[:-1]]
    values = [array[key].values.tolist() for key in keys]
    for place in np.ndindex(*array.shape):
        yield {key: values[axis][place[axis]] for axis, key in enumerate(keys)}, place


def _finite(value: np.floating) -> float | None:
    return value.item() if np.isfinite(value) else None


def _csv(rows: Iterable[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return text.getvalue() or "\n"


def _at(values: xr.DataArray, dim: object, k: int) -> str:
    label = values[dim].values[k] if dim in values.coords else k
    return f"{dim}={label}" if isinstance(label, str) else f"{dim}={label:.4g}"
