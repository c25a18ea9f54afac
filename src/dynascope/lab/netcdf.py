"""Labeled arrays to netCDF bytes and back, with nothing lost: booleans, strings, complex numbers, attributes, groups.

Bytes are made in memory, so that a full disk is an error of writing a plain file and not one inside HDF5. The same data
always gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xarray as xr

from dynascope.lab.errors import StoreError
from dynascope.lab.hdf5 import datasets, image, simple
from dynascope.lab.json_text import plain_json

_AS_JSON = "json:"
_TREE = "dynascope_tree"
"""The attribute of the root that marks a tree; its value is the tree's name."""


def pack(data: xr.Dataset | xr.DataTree) -> bytes:
    """The bytes of a netCDF file with a dataset, or with a tree of datasets, each node a group."""
    if isinstance(data, xr.Dataset):
        nodes = {"/": _encode(data)}
    else:
        tree = data.copy()  # a subtree becomes a tree of its own, with the coordinates it inherited
        nodes = {node.path: _encode(node.to_dataset(inherit=False)) for node in tree.subtree}
        nodes["/"].attrs[_TREE] = _AS_JSON + json.dumps(data.name)
    if all(map(simple, nodes.values())):
        return image(nodes)
    whole = nodes["/"] if isinstance(data, xr.Dataset) else xr.DataTree.from_dict(nodes)
    return bytes(whole.to_netcdf(engine="h5netcdf", invalid_netcdf=True))


def load(path: Path) -> xr.Dataset | xr.DataTree:
    """Read a file that `pack` wrote, into memory."""
    try:
        return unpack(path.read_bytes())
    except FileNotFoundError:
        raise
    except Exception as error:  # HDF5 raises many kinds for a damaged file
        raise StoreError(f"{path} is not a readable netCDF file: run again with --force to replace it") from error


def unpack(data: bytes) -> xr.Dataset | xr.DataTree:
    """The inverse of `pack`."""
    nodes = {name: _decode(group) for name, group in datasets(data).items()}
    if _TREE not in nodes["/"].attrs:
        return nodes["/"]
    return xr.DataTree.from_dict(nodes, name=nodes["/"].attrs.pop(_TREE))


def _encode(dataset: xr.Dataset) -> xr.Dataset:
    """A copy whose arrays and attributes netCDF can hold."""
    packed = dataset.copy()
    for variable in packed.variables.values():
        if not isinstance(variable, xr.IndexVariable):
            variable.data = _storable(np.asarray(variable.data))
        variable.attrs = _to_attrs(variable.attrs)
        variable.encoding = {"_FillValue": None} if variable.dtype.kind in "fc" else {}
    packed.attrs = _to_attrs(packed.attrs)
    return packed


def _decode(dataset: xr.Dataset) -> xr.Dataset:
    """The inverse of `_encode`."""
    for variable in dataset.variables.values():
        variable.attrs = _from_attrs(variable.attrs)
        variable.encoding = {}
    dataset.attrs = _from_attrs(dataset.attrs)
    dataset.encoding = {}
    return dataset


def _storable(array: np.ndarray) -> np.ndarray:
    """Types that HDF5 does not know (bfloat16 and other short floats) become float32."""
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array


def _to_attrs(attrs: Mapping[object, object]) -> dict[str, str | int | float]:
    """Attributes as netCDF holds them: strings and numbers as they are, anything else as JSON."""
    kept: dict[str, str | int | float] = {}
    for name, value in attrs.items():
        as_list = getattr(value, "tolist", None)
        value = as_list() if as_list else value
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            kept[str(name)] = value
        else:
            kept[str(name)] = _AS_JSON + json.dumps(plain_json(value), default=str)
    return kept


def _from_attrs(attrs: Mapping[object, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in attrs.items():
        if isinstance(value, str) and value.startswith(_AS_JSON):
            found[str(name)] = json.loads(value.removeprefix(_AS_JSON))
        else:
            found[str(name)] = value.item() if isinstance(value, np.generic) else value
    return found
