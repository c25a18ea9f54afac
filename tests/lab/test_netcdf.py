"""Labeled arrays come back from disk as they went."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from dynascope.lab.errors import StoreError
from dynascope.lab.netcdf import load, pack


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
    dataset.real.attrs["limits"] = (0, 1)
    return dataset


def test_all_kinds_of_arrays_and_attributes_survive(tmp_path: Path):
    before = everything()
    (tmp_path / "a.nc").write_bytes(pack(before))
    after = load(tmp_path / "a.nc")
    before.real.attrs["limits"] = [0, 1]
    xr.testing.assert_identical(before, after)
    assert {name: after[name].dtype.kind for name in after.variables} == {
        name: before[name].dtype.kind for name in before.variables
    }


def test_the_same_data_gives_the_same_bytes():
    assert pack(everything()) == pack(everything())


def test_arrays_of_jax_are_taken_too(tmp_path: Path):
    dataset = xr.Dataset({"a": ("x", np.asarray(jnp.ones(2, jnp.bfloat16)))})
    (tmp_path / "a.nc").write_bytes(pack(dataset))
    assert load(tmp_path / "a.nc").a.dtype == np.float32


@pytest.mark.parametrize("keep", [0, 8, 200, -1])
def test_a_truncated_file_is_one_line(tmp_path: Path, keep: int):
    path = tmp_path / "a.nc"
    path.write_bytes(pack(everything())[:keep])
    with pytest.raises(StoreError, match=r"a.nc is not a readable netCDF file: run again with --force"):
        load(path)
