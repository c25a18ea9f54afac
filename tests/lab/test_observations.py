"""Observations in the store: stored whole or visibly unfinished, listed, compared, removed, and on a page."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from dynascope.lab import draft, observations
from dynascope.lab.cleaning import choose, find_named, remove
from dynascope.lab.compare import Comparison
from dynascope.lab.errors import StoreError, UsageError
from dynascope.lab.inventory import inventory
from dynascope.lab.lookup import find
from dynascope.lab.observations import save_observation
from dynascope.lab.overlay import draw
from dynascope.lab.report import write
from dynascope.lab.store import Store


def trace(scale: float = 1.0) -> xr.Dataset:
    steps = np.arange(0, 100, 10)
    variables = {
        "loss": ("step", scale * np.exp(-steps / 50)),
        "sharpness": ("step", scale * (10 + steps / 5)),
        "sharpness_error": ("step", np.full(10, 0.1)),
        "ranks": (("step", "weight"), np.ones((10, 2))),
        "diverged_at": ((), np.int32(-1)),
    }
    attrs = {"compile_seconds": 0.5, "run_seconds": 2.0, "left_out": [30]}
    return xr.Dataset(variables, {"step": steps, "weight": ["a", "b"]}, attrs)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store; figures, which take most of the time, are left out."""
    monkeypatch.setattr(observations, "_draw", lambda trace: {})
    return Store(tmp_path / "runs")


def test_an_observation_is_read_as_it_was_saved(store: Store):
    saved = save_observation(trace(), "mine", learning_rate=0.1, settings={"width": 8}, store=store, device="a gpu")
    again = find(store, "observed.mine").verify()
    assert again.digest == saved.digest
    measured = again.measured()
    assert trace().equals(measured)  # pyright: ignore[reportArgumentType]
    assert measured.attrs == {"left_out": [30], "learning_rate": 0.1}
    assert again.config == {"width": 8, "learning_rate": 0.1}
    facts = ("device", "compile_seconds", "run_seconds", "recordings", "kind")
    assert [again.manifest[name] for name in facts] == [
        "a gpu",
        0.5,
        2.0,
        "10 recordings, steps 0 to 90",
        "observation",
    ]
    assert (again.claims, again.verdict) == ([], None)


def test_the_same_trace_is_one_observation_and_another_one_is_a_second(store: Store):
    first, again, other = (save_observation(trace(k), "mine", store=store) for k in (1, 1, 2))
    assert first.digest == again.digest != other.digest
    assert len(store.runs("observed.mine")[0]) == 2


def test_one_that_goes_on_replaces_what_it_has_saved(store: Store):
    first = save_observation(trace().isel(step=slice(5)), "mine", store=store)
    second = save_observation(trace(), "mine", store=store, replaces=first)
    assert second.digest == first.digest
    assert [run.recordings for run in store.runs()[0]] == ["10 recordings, steps 0 to 90"]
    assert save_observation(trace(), "other", store=store, replaces=first).id == "observed.other"


@pytest.mark.parametrize("name", ["", "Mine", "a/b", "../a", "a b", "x" * 100])
def test_a_name_that_is_no_folder_is_refused(store: Store, name: str):
    with pytest.raises(UsageError, match="name must be lower-case words with dots and dashes, such as digits-cnn; got"):
        save_observation(trace(), name, store=store)
    assert store.ids() == []


def test_something_without_recordings_is_refused(store: Store):
    with pytest.raises(
        UsageError, match="a variable recorded along step or time; got one in which nothing was recorded"
    ):
        save_observation(trace()[["diverged_at"]], "mine", store=store)


def test_a_full_disk_is_one_line_and_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch):
    def full(*args: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(draft, "write_atomically", full)
    with pytest.raises(StoreError, match=r"^disk full while storing observed.mine: free some space"):
        save_observation(trace(), "mine", store=store)
    assert store.folders("observed.mine") == []


@pytest.mark.parametrize("writes", range(5))
def test_a_kill_leaves_it_whole_or_visibly_unfinished_and_it_can_be_saved_again(
    store: Store, writes: int, monkeypatch: pytest.MonkeyPatch
):
    real, done = draft.write_atomically, []

    def until_killed(*args: Any, **more: Any) -> None:
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(args)
        real(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(draft, "write_atomically", until_killed)
        if writes < 4:  # measured.nc, claims.json, config.json, manifest.json
            with pytest.raises(KeyboardInterrupt):
                save_observation(trace(), "mine", store=store)
        else:
            save_observation(trace(), "mine", store=store)
    (item,) = inventory(store, "observed.mine")
    assert item.state == ("unfinished" if writes < 4 else "complete")
    assert save_observation(trace(), "mine", store=store).verify()
    assert [item.state for item in inventory(store, "observed.*")] == ["complete"]


def test_two_are_compared_without_the_entries_of_probes(store: Store, tmp_path: Path):
    pair = [save_observation(trace(k), f"net-{k}", learning_rate=0.1 * k, store=store) for k in (1, 2)]
    compared = Comparison(*pair)
    assert compared.fields == {"experiment": ("observed.net-1", "observed.net-2"), "learning_rate": (0.1, 0.2)}
    assert draw(compared, tmp_path / "both.svg") == (True, [])
    assert "sharpness error" not in (tmp_path / "both.svg").read_text()


def test_an_observation_is_removed_by_its_name_and_is_never_of_old_code(store: Store):
    saved = save_observation(trace(), "mine", store=store)
    assert choose(store, old_code=True) == ([], [])
    remove(store, find_named(store, ["observed.mine"]))
    assert not saved.folder.exists()


def test_a_trace_that_cannot_be_drawn_is_stored_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observations, "plot_trace", lambda trace: 1 / 0)
    with pytest.warns(UserWarning, match="stored without a figure"):
        saved = save_observation(trace(), "mine", store=tmp_path / "runs")
    assert saved.figures == {}
    assert trace().equals(saved.measured())  # pyright: ignore[reportArgumentType]


def test_the_report_has_a_page_with_panels_and_findings(tmp_path: Path):
    saved = save_observation(trace(), "mine", learning_rate=0.1, store=tmp_path / "runs", command="dynascope observe x")
    lines: list[str] = []
    index = write(Store(tmp_path / "runs"), tmp_path / "site", warn=lines.append)
    assert lines == []
    page = (tmp_path / "site" / saved.id / saved.digest / "index.html").read_text()
    for words in ("What the readers found", "reaches 2/η = 20 between steps 40 and 50", "dynascope observe x"):
        assert words in page
    assert "trace.wide.webp" in page
    assert "Claims" not in page
    assert "1 observation" in index.read_text()
