"""Labeled arrays come back from disk as they went."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from h5py import h5f

from dynascope.lab.errors import StoreError
from dynascope.lab.netcdf import _encode, load, pack, unpack


def everything() -> xr.Dataset:
    dataset = xr.Dataset(
        {
            "real": (("x", "y"), np.array([[1.0, np.nan], [np.inf, -0.0], [1e-300, 2.0]])),
            "single": ("x", np.arange(3, dtype=np.float32)),
            "truth": ("x", np.array([True, False, True])),
            "phase": ("x", np.array([1 + 2j, 3, 4j])),
            "word": ((), "µ"),
            "none": (("x", "z"), np.zeros((3, 0))),
            "small": ("x", np.arange(3, dtype=np.int8)),
        },
        coords={"x": ["a", "bé", "c"], "y": [True, False], "time": ("x", [1.0, 2.0, 3.0])},
        attrs={"count": 1, "rate": 0.5, "list": [1], "nested": {"a": [[1], [2, 3]]}, "no": None, "yes": True},
    )
    dataset.time.attrs["units"] = "seconds"
    dataset["real"].attrs["limits"] = [0, 1]
    return dataset


def tree() -> xr.DataTree:
    """Nested groups: with and without data, sharing a coordinate or a dimension with the group above, and not."""
    nodes = {
        "/": everything(),
        "/zeta": xr.Dataset({"phase": ("x", np.array([1j, 2, 3]))}),
        "/alpha": xr.Dataset(attrs={"list": [1, 2]}),
        "/alpha/deep": everything().rename(x="u"),
        "/sized": xr.Dataset({"truth": (("x", "k"), np.ones((3, 2), bool))}),
        "/sized/below": xr.Dataset({"word": ("k", np.array(["a", "µ"]))}),
        "/sized/other": xr.Dataset({"single": ((), np.float32(1.5))}),
    }
    return xr.DataTree.from_dict(nodes, name="everything")


def stored(data: xr.Dataset | xr.DataTree, folder: Path) -> xr.Dataset | xr.DataTree:
    (folder / "a.nc").write_bytes(pack(data))
    return load(folder / "a.nc")


def test_all_kinds_of_arrays_and_attributes_survive(tmp_path: Path):
    before = everything()
    after = stored(before, tmp_path)
    xr.testing.assert_identical(before, after)
    assert {name: after[name].dtype.kind for name in after.variables} == {
        name: before[name].dtype.kind for name in before.variables
    }


def test_a_tree_survives_with_its_groups_in_order(tmp_path: Path):
    before, after = tree(), stored(tree(), tmp_path)
    assert isinstance(after, xr.DataTree)
    xr.testing.assert_identical(before, after)
    assert [node.path for node in after.subtree] == [node.path for node in before.subtree]
    for node in before.subtree:
        kinds = {name: variable.dtype.kind for name, variable in node.variables.items()}
        assert {name: variable.dtype.kind for name, variable in after[node.path].variables.items()} == kinds


def test_a_tree_without_groups_stays_a_tree_and_a_branch_becomes_one(tmp_path: Path):
    alone = xr.DataTree(everything())
    xr.testing.assert_identical(stored(alone, tmp_path), alone)
    branch = tree()["zeta"]
    assert isinstance(branch, xr.DataTree)
    after = stored(branch, tmp_path)
    assert isinstance(after, xr.DataTree)
    assert after.path == "/"
    assert after.x.values.tolist() == ["a", "bé", "c"]


@pytest.mark.parametrize("make", [everything, tree])
def test_a_file_that_was_read_is_closed(tmp_path: Path, make: Callable[[], xr.Dataset | xr.DataTree]):
    data = stored(make(), tmp_path)
    assert h5f.get_obj_count(h5f.OBJ_ALL, h5f.OBJ_FILE) == 0
    assert data["real"].shape == (3, 2)


@pytest.mark.parametrize("make", [everything, tree])
def test_the_same_data_gives_the_same_bytes(make: Callable[[], xr.Dataset | xr.DataTree]):
    assert pack(make()) == pack(make())


def test_arrays_of_jax_are_taken_too(tmp_path: Path):
    dataset = xr.Dataset({"a": ("x", np.asarray(jnp.ones(2, jnp.bfloat16)))})
    assert stored(dataset, tmp_path)["a"].dtype == np.float32


@pytest.mark.parametrize("keep", [0, 8, 200, -1])
def test_a_truncated_file_is_one_line(tmp_path: Path, keep: int):
    path = tmp_path / "a.nc"
    path.write_bytes(pack(everything())[:keep])
    with pytest.raises(StoreError, match=r"a.nc is not a readable netCDF file: run again with --force"):
        load(path)


def by_xarray(data: bytes) -> dict[str, xr.Dataset]:
    groups = xr.open_groups(io.BytesIO(data), engine="h5netcdf", decode_times=False, mask_and_scale=False)
    return {path: group.load() for path, group in groups.items()}


def test_xarray_reads_what_is_written_and_what_xarray_writes_is_read():
    ours = by_xarray(pack(everything()))["/"]
    plain = everything().drop_attrs()
    xr.testing.assert_identical(ours.drop_attrs(), plain)
    assert list(ours.data_vars) == list(plain.data_vars)
    assert ours.time.attrs == {"units": "seconds"}
    theirs = bytes(_encode(everything()).to_netcdf(engine="h5netcdf", invalid_netcdf=True))
    xr.testing.assert_identical(unpack(theirs), everything())
    for path, group in by_xarray(pack(tree())).items():
        here = tree()[path]
        assert isinstance(here, xr.DataTree)
        assert list(group.data_vars) == list(here.to_dataset(inherit=False).data_vars)


def test_what_is_not_plain_is_written_by_xarray(tmp_path: Path):
    dates = xr.Dataset({"a": ("when", [1.0, 2.0])}, {"when": np.array(["2026-01-01", "2026-01-03"], "datetime64[s]")})
    after = stored(dates, tmp_path)
    assert isinstance(after, xr.Dataset)
    xr.testing.assert_identical(xr.decode_cf(after), dates)
