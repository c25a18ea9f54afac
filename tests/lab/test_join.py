"""Parts of an experiment, run apart, become the run of the whole."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from dynascope.lab import join as join_module
from dynascope.lab.criteria import below
from dynascope.lab.errors import UsageError
from dynascope.lab.experiment import JoinableExperiment, Source
from dynascope.lab.join import join
from dynascope.lab.run import run
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store


class Grid(JoinableExperiment):
    """Is every product of a factor and a seed what it should be?"""

    id = "toy.grid"
    source = Source("none", "Figure 1")
    cost = {"quick": 1, "full": 1}
    control = {"offset": 1.0}
    parts: ClassVar[tuple[str, ...]] = ("factors", "seeds", "first_seed")

    factors: tuple[float, ...] = (1.0, 2.0)
    seeds: int = 3
    first_seed: int = 0
    offset: float = 0.0

    def members(self, seed: int) -> dict[str, np.ndarray]:
        return {"factor": np.asarray(self.factors), "seed": 100 * seed + self.first_seed + np.arange(self.seeds)}

    def measure(self, seed: int) -> xr.Dataset:
        at = self.members(seed)
        product = at["factor"][:, None] * at["seed"][None, :] + self.offset
        return xr.Dataset({"product": (("factor", "seed"), product), "note": ("factor", at["factor"])}, at)

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        return measured

    def judge(self, reduced: xr.Dataset):
        yield below("small", "Products are small", reduced["product"], 1000)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> dict[str, Figure]:
        return {"nothing": Figure(figsize=(1, 1))}


def test_seeds_and_settings_that_were_run_apart_make_the_measurement_of_the_whole(store):
    for first in range(3):
        run(Grid(seeds=1, first_seed=first, factors=(1.0,)), store=store, draw=False)
    run(Grid(factors=(2.0,)), store=store, draw=False)
    run(Grid(offset=5.0), store=store, draw=False)  # another setting, not a part
    joined = join(Setting.of(Grid()), store)
    whole = Grid().measure(0)
    assert np.array_equal(joined.measured()["product"], whole["product"])
    assert joined.measured().note.dims == ("factor",)
    assert len(joined.manifest["parts"]) == 4
    assert joined.claims[0].verdict == "holds"
    assert joined.figures


def test_a_missing_training_is_named(store):
    run(Grid(seeds=2), store=store, draw=False)
    with pytest.raises(UsageError, match=r"toy\.grid: no stored part contains 2 of its trainings: factor 1, seed 2"):
        join(Setting.of(Grid()), store)


def test_parts_may_lie_in_other_stores(store, tmp_path):
    elsewhere = Store(tmp_path / "elsewhere")
    run(Grid(seeds=2), store=store, draw=False)
    run(Grid(seeds=1, first_seed=2), store=elsewhere, draw=False)
    joined = join(Setting.of(Grid()), store, others=[elsewhere])
    assert joined.measured().sizes["seed"] == 3
    again = join(Setting.of(Grid()), store)
    assert again.reused, "the whole is stored"
    assert not list(store.root.rglob("*.unfinished"))


def test_parts_that_other_code_measured_are_told(store, monkeypatch):
    run(Grid(seeds=2), store=store, draw=False)
    said: list[str] = []
    real = join_module.fingerprints
    monkeypatch.setattr(join_module, "fingerprints", lambda kind: {**real(kind), "measure": "other"})
    join(Setting.of(Grid(seeds=1)), store, warn=said.append)
    assert len(said) == 1
    assert said[0].startswith("toy.grid: 1 of 1 parts were measured by other code: ")


def test_only_what_has_parts_is_joined(store, walk):
    with pytest.raises(UsageError, match=r"toy\.walk cannot be joined from parts: its trainings are one run"):
        join(Setting.of(walk()), store)


def test_parts_that_read_data_are_joined_without_measuring_again(store, tmp_path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setattr(Grid, "data_sets", lambda self: ("mine",))

    def write(value: int) -> None:
        x = np.full((2, 3), value)
        np.savez(tmp_path / "mine.npz", x_train=x, y_train=x[:, 0], x_test=x, y_test=x[:, 0])

    write(1)
    run(Grid(seeds=2), store=store, draw=False)
    write(2)
    run(Grid(seeds=1, first_seed=2), store=store, draw=False)
    with pytest.raises(UsageError, match="no stored part contains 4 of its trainings"):  # the others saw other data
        join(Setting.of(Grid()), store)
    run(Grid(seeds=2), store=store, draw=False)
    monkeypatch.setattr(Grid, "measure", lambda self, seed: pytest.fail("its parts were measured already"))
    joined = join(Setting.of(Grid()), store)
    assert joined.manifest["data"].keys() == {"mine"}
    assert len(joined.manifest["parts"]) == 2
    assert not list(store.root.rglob("*.unfinished"))
