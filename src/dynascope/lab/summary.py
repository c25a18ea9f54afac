"""The summary of a sweep: at each point, for each claim, how often it held, and its numbers."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from dynascope import __version__
from dynascope.figures import panels
from dynascope.lab.claims import wilson_interval
from dynascope.lab.experiment import Experiment
from dynascope.lab.files import canonical, checksum, digest_of, house_style, locked, pretty, write_whole
from dynascope.lab.netcdf import pack
from dynascope.lab.store import SWEEPS, UNFINISHED, Store, publish, settle

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cell:
    """One run of a sweep: its point on the grid, its seed, its claims (None where it crashed) and its reduced numbers
    (None also where they are a tree)."""

    point: tuple[Any, ...]
    seed: int
    claims: list[dict[str, Any]] | None
    reduced: xr.Dataset | None = None
    error: str = ""


def tabulate(grid: Mapping[str, Sequence[Any]], cells: Sequence[Cell]) -> xr.Dataset:
    """The sweep as labeled arrays over the grid's keys, `claim` and `seed`.

    `share`, `low`, `high`: how often the verdict was `holds` or `erratum`, with its Wilson interval; `of`: how many
    runs finished; `value`: the number measured, where the claim measured a number (or a share).
    """
    claims = list(dict.fromkeys(claim["id"] for cell in cells for claim in cell.claims or ()))
    seeds = sorted({cell.seed for cell in cells})
    places = {key: {canonical(value): k for k, value in enumerate(values)} for key, values in grid.items()}
    shape = (*(len(values) for values in grid.values()), len(claims))
    held = np.full((*shape, len(seeds)), np.nan)
    value = np.full_like(held, np.nan)
    for cell in cells:
        where = tuple(places[key][canonical(given)] for key, given in zip(grid, cell.point, strict=True))
        for claim in cell.claims or ():
            at = (*where, claims.index(claim["id"]), seeds.index(cell.seed))
            held[at] = claim["verdict"] != "fails"
            value[at] = _number(claim["measured"])
    of = np.isfinite(held).sum(-1)
    yes = np.nansum(held, -1)
    bounds = np.array([wilson_interval(int(k), int(n)) for k, n in zip(yes.flat, of.flat, strict=True)])
    bounds = bounds.reshape(*shape, 2)
    dims = (*grid, "claim")
    share = np.divide(yes, of, out=np.full(shape, np.nan), where=of > 0)
    return xr.Dataset(
        {
            "share": (dims, share),
            "low": (dims, bounds[..., 0]),
            "high": (dims, bounds[..., 1]),
            "of": (dims, of),
            "value": ((*dims, "seed"), value),
        },
        {**{key: _labels(values) for key, values in grid.items()}, "claim": np.array(claims, dtype=str), "seed": seeds},
    )


def collect(grid: Mapping[str, Sequence[Any]], cells: Sequence[Cell]) -> xr.Dataset | None:
    """The reduced numbers of all runs over the grid's keys and `run` (the seed of the run), NaN where one crashed.

    Variables whose shape changes over the grid are left out, and so are those that are no numbers. A dimension keeps
    its coordinate where that is the same in all runs, and is called `..._of_run` where the grid has a key of its name.
    """
    found = [cell.reduced for cell in cells if cell.reduced is not None]
    if not found:
        return None
    runs = sorted({cell.seed for cell in cells})
    places = {key: {canonical(value): k for k, value in enumerate(values)} for key, values in grid.items()}
    shape = (*(len(values) for values in grid.values()), len(runs))
    taken = {*grid, "run"}
    arrays: dict[str, Any] = {}
    for name, first in found[0].data_vars.items():
        same = all(name in one and one[name].dims == first.dims and one[name].shape == first.shape for one in found)
        if not same or first.dtype.kind not in "biuf":
            continue
        values = np.full((*shape, *first.shape), np.nan)
        for cell in cells:
            if cell.reduced is not None:
                where = tuple(places[key][canonical(given)] for key, given in zip(grid, cell.point, strict=True))
                values[(*where, runs.index(cell.seed))] = cell.reduced[name].values
        dims = [f"{dim}_of_run" if dim in taken else str(dim) for dim in first.dims]
        arrays[f"{name}_of_run" if name in taken else str(name)] = ((*grid, "run", *dims), values)
    coords: dict[str, Any] = {key: _labels(values) for key, values in grid.items()} | {"run": runs}
    for dim, values in found[0].coords.items():
        if values.dims == (dim,) and all(dim in one.coords and one[dim].equals(values) for one in found):
            coords[f"{dim}_of_run" if dim in taken else str(dim)] = values.values
    return xr.Dataset(arrays, {name: value for name, value in coords.items() if name not in arrays})


def keep_summary(
    store: Store,
    kind: type[Experiment],
    grid: Mapping[str, Sequence[Any]],
    cells: Sequence[Cell],
    *,
    base: Mapping[str, Any],
    preset: str | None,
    seeds: int,
) -> Path:
    """Write `sweeps/<digest>/` with the table (netCDF, CSV, JSON), the reduced numbers of all runs, the figure and a
    manifest; return the folder."""
    question = {"id": kind.id, "grid": {key: list(values) for key, values in grid.items()}, "fields": dict(base)}
    question |= {"preset": preset, "seeds": seeds}
    final = store.root / kind.id / SWEEPS / digest_of(question)
    draft = final.with_name(final.name + UNFINISHED)
    table = tabulate(grid, cells)
    rows = _rows(grid, table)
    with locked(final.with_name(final.name + ".lock"), f"another process is writing {final}"):
        settle(final)
        shutil.rmtree(draft, ignore_errors=True)
        errors = [{"point": list(cell.point), "seed": cell.seed, "error": cell.error} for cell in cells if cell.error]
        write_whole(draft / "summary.nc", pack(table))
        if (reduced := collect(grid, cells)) is not None:
            write_whole(draft / "reduced.nc", pack(reduced))
        write_whole(draft / "summary.csv", _csv(rows))
        write_whole(draft / "summary.json", pretty({**question, "rows": rows, "errors": errors}))
        if table.sizes["claim"] and len(grid) <= 2:
            write_whole(draft / "summary.png", draw(kind.title(), table, list(grid)))
        files = {path.name: checksum(path) for path in sorted(draft.iterdir())}
        manifest = {"format": 1, "status": "complete", **question, "dynascope": __version__, "files": files}
        write_whole(draft / "manifest.json", pretty(manifest))
        publish(draft, final)
    return final


def draw(title: str, table: xr.Dataset, keys: Sequence[str]) -> bytes:
    """The main claim's share over the grid, as PNG: a line with its interval over one key, a map over two."""

    with house_style():
        figure = _figure(title, table, keys)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()


def _figure(title: str, table: xr.Dataset, keys: Sequence[str]) -> Figure:
    main = table.isel(claim=0)
    figure, axes = panels(1, size=(6, 4))
    named = f"share of seeds: {main.claim.item()}"
    ticks = {key: [value if isinstance(value, str) else f"{value:.4g}" for value in table[key].values] for key in keys}
    if len(keys) == 1:
        key = keys[0]
        numeric = table[key].dtype.kind in "iuf"
        x = table[key].values if numeric else np.arange(table.sizes[key])
        axes.fill_between(x, main.low, main.high, alpha=0.2, linewidth=0)
        axes.plot(x, main.share, marker="o")
        if not numeric:
            axes.set_xticks(x, ticks[key])
        elif x.min() > 0 and x.max() / x.min() >= 30:
            axes.set_xscale("log")
        axes.set(xlabel=key, ylabel=named, ylim=(-0.03, 1.03))
    else:
        across, up = keys
        image = axes.imshow(
            main.share.transpose(up, across), vmin=0, vmax=1, origin="lower", aspect="auto", cmap="viridis"
        )
        axes.grid(False)
        axes.set_xticks(range(table.sizes[across]), ticks[across], rotation=45, ha="right")
        axes.set_yticks(range(table.sizes[up]), ticks[up])
        axes.set(xlabel=across, ylabel=up)
        figure.colorbar(image, label=named)
    axes.set_title(title, fontsize="medium")
    return figure


def _rows(grid: Mapping[str, Sequence[Any]], table: xr.Dataset) -> list[dict[str, Any]]:
    rows = []
    for place in np.ndindex(*table.share.shape):
        row: dict[str, Any] = {key: list(values)[k] for (key, values), k in zip(grid.items(), place, strict=False)}
        row["claim"] = str(table.claim.values[place[-1]])
        row |= {name: table[name].values[place].item() for name in ("share", "low", "high", "of")}
        values = table.value.values[place]
        values = values[np.isfinite(values)]
        row["mean"] = float(values.mean()) if values.size else None
        row["sd"] = float(values.std(ddof=1)) if values.size > 1 else None
        rows.append(row)
    return rows


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _labels(values: Sequence[Any]) -> np.ndarray:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values)
    return np.array([value if isinstance(value, str) else canonical(value) for value in values])


def _number(measured: Any) -> float:
    """The number a claim measured: the number itself, a share's, or one beside further numbers; else NaN."""
    if isinstance(measured, dict):
        measured = measured.get("share", measured.get("measured"))
    return float(measured) if isinstance(measured, int | float) else np.nan
