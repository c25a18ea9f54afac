"""An ensemble on eight devices has the numbers of one device."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

import dynascope as ds
from dynascope.dynamics import driver
from dynascope.dynamics.checkpoint import kept_rows
from dynascope.dynamics.driver import spread, usable_devices

SCRIPT = Path(__file__).with_name("eight_devices.py")
SPEC = importlib.util.spec_from_file_location("eight_devices", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
eight_devices = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(eight_devices)
RUNS, table, thirteen = eight_devices.RUNS, eight_devices.table, eight_devices.thirteen

ABOUT = {"devices", "held"}
Tables = Callable[[str], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the script wrote, in a process that sees eight devices."""
    folder = tmp_path_factory.mktemp("eight")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "SLICE_SECONDS", 1e-9)
        eight_devices.interrupted(lambda: thirteen(width=5), folder / "one")  # in its second batch of five
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    compiled = {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": str(jax.config.read("jax_disable_most_optimizations")),
        "JAX_COMPILATION_CACHE_DIR": f"{jax.config.jax_compilation_cache_dir}-eight",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, "-W", "error", str(SCRIPT), str(folder)]
    done = subprocess.run(
        command, env={**os.environ, **compiled, "XLA_FLAGS": flags}, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def on_eight(folder: Path) -> Tables:
    """The numbers of a run on eight devices."""

    def read(name: str) -> dict[str, np.ndarray]:
        with np.load(folder / f"{name}.npz") as kept:
            return dict(kept)

    return read


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Equal to 1e-6; whole numbers, such as the step at which a member diverged, exactly."""
    assert expected.keys() <= found.keys()
    for name in expected.keys() - ABOUT:
        if expected[name].dtype.kind != "f":
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
        else:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-6, err_msg=name)


def assert_same_bits(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert expected.keys() <= found.keys()
    for name in expected.keys() - ABOUT:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize("name", RUNS)
def test_the_numbers_are_those_of_one_device(name, on_eight: Tables):
    assert_close(on_eight(name), table(RUNS[name]()))


def test_of_a_thousand_members_those_that_diverge_do_so_on_any_device(on_eight: Tables):
    found = on_eight("thousand")
    assert found["diverged_at"].shape == (512, 2)
    assert (found["diverged_at"][:, 0] == -1).all()
    assert (found["diverged_at"][:, 1] > 0).all()


@pytest.mark.parametrize(
    ("name", "devices"),
    [("thousand", 8), ("thirteen", 7), ("three", 3), ("one after another", 8), ("on one", 1), ("a member resumed", 1)],
)
def test_as_few_devices_as_it_takes_are_used(name, devices, on_eight: Tables):
    assert on_eight(name)["devices"] == devices


def test_members_that_only_fill_up_are_not_shown(on_eight: Tables):
    found = on_eight("thirteen")
    assert {found[name].shape[0] for name in found.keys() - ABOUT} == {13}


def test_what_is_kept_of_many_devices_lies_on_none_of_them_but_one(on_eight: Tables):
    assert on_eight("thirteen")["held"] == 1  # random keys
    assert on_eight("a member resumed")["held"] == 1


def test_what_does_not_fit_is_split_over_all_devices(on_eight: Tables):
    found = on_eight("split")
    assert found.pop("tried").tolist() == [14, 8, 8]
    assert_close(found, table(thirteen()))


def test_a_run_that_was_cut_off_goes_on_to_the_same_bits(on_eight: Tables):
    found = on_eight("taken up from eight")
    assert found["done"].tolist() == [7]
    assert_same_bits(found, on_eight("thirteen"))


def test_eight_devices_go_on_where_one_was(on_eight: Tables):
    found = on_eight("taken up from one")
    assert found["done"].tolist() == [11, 7, -1]  # five members, five more, and three that one device had not begun
    assert_close(found, table(thirteen()))


@pytest.mark.parametrize(("width", "done"), [(None, [7]), (4, [7, 7, 7, 7])])
def test_one_device_goes_on_where_eight_were(width, done, folder: Path, tmp_path: Path):
    for kept in (folder / "eight").glob("*.npz"):
        (tmp_path / kept.name).write_bytes(kept.read_bytes())
    found, were = eight_devices.taken_up(lambda: thirteen(width=width), tmp_path)
    assert were == done
    assert_close(table(found), table(thirteen()))


def test_what_is_kept_of_another_run_does_not_cut_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver, "SLICE_SECONDS", 1e-9)
    other = eight_devices.over(13, 0.04)
    eight_devices.interrupted(lambda: ds.ensemble(eight_devices.member, other, **eight_devices.PLAN, width=5), tmp_path)
    found, done = eight_devices.taken_up(thirteen, tmp_path)
    assert set(done) == {-1}
    assert (tmp_path / "001-0-13.npz").exists()
    assert_same_bits(table(found), table(thirteen()))


@pytest.mark.parametrize("members", [1, 3, 8, 13, 100, 1024, 5000])
@pytest.mark.parametrize("width", [1, 7, 512])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_layout_holds_what_it_can_and_is_the_same_for_its_own_size(members, width, count):
    devices = jax.local_devices()[:1] * count
    layout = spread(members, width, tuple(devices))
    assert layout.width <= width
    assert layout.size >= min(members, width * count)
    assert layout.size - layout.width < members  # no device without a member
    assert spread(layout.size, width, tuple(devices)) == layout  # a checkpoint of it is taken up in the same batch


def test_a_committed_array_says_where_to_run():
    device = jax.local_devices()[0]
    assert usable_devices({"rows": jax.device_put(np.ones(2), device)}) == (device,)
    with jax.default_device(device):
        assert usable_devices(None) == (device,)


def test_the_smallest_table_with_a_member_is_the_latest():
    names = ["001-0-14", "001-4-4", "001-4-2", "002-4-1", "unrelated"]
    assert kept_rows(names, "001", 5) == ("001-4-2", 4, 2)
    assert kept_rows(names, "001", 7) == ("001-4-4", 4, 4)
    assert kept_rows(names, "001", 13) == ("001-0-14", 0, 14)
    assert kept_rows(names, "001", 14) is None
