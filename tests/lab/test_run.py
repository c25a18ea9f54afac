"""A run: what it leaves, when it is reused, and that nothing measured is ever lost."""

from __future__ import annotations

import errno
import json
import os
import threading
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from dynascope.checks import InputError
from dynascope.dynamics.monitor import current_monitor
from dynascope.lab import draft as draft_module, execute, files, machine, registry, steps
from dynascope.lab.errors import ExperimentCrash, StoreError, UsageError
from dynascope.lab.fingerprint import STEPS, fingerprints
from dynascope.lab.monitor import Progress
from dynascope.lab.run import run
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.tasks.data import images
from dynascope.tasks.data.files import DataNotFoundError


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_run_leaves_all_there_is_to_know(walk, store: Store):
    done = run(walk(steps=20), seed=3, preset="quick", store=store)
    assert sorted(content(done.folder)) == [
        "claims.json",
        "config.json",
        "figures/walk.png",
        "figures/walk.svg",
        "manifest.json",
        "measured.nc",
        "predicted.nc",
        "reduced.nc",
    ]
    assert done.manifest["command"] == "dynascope run toy.py::toy.walk --preset quick --seed 3"
    assert (done.manifest["compile_seconds"], done.manifest["resumed"]) == (0.25, False)
    assert {"jax", "numpy", "python"} <= done.manifest["versions"].keys()
    assert done.config["steps"] == 20
    assert [claim.id for claim in done.claims] == ["climbs", "end"]
    assert done.verdict == "holds"
    assert list(done.figures) == ["walk"]
    assert done.measured().position.dims == ("seed", "step")
    predicted = done.predicted()
    assert predicted is not None
    assert float(predicted.position[-1]) == 20.0
    said = json.loads((done.folder / "claims.json").read_text())
    assert set(said[0]) == {
        "id",
        "statement",
        "source",
        "measured",
        "expected",
        "verdict",
        "seeds",
        "post_hoc",
        "known",
        "kind",
        "printed",
    }
    assert said[1]["source"] == "Figure 1", "the experiment's place, where a claim names none"
    assert done.reduced().end.sizes == {"seed": 4}
    assert [path.name for path in done.folder.parent.iterdir()] == [done.digest]


def test_the_same_question_is_answered_from_the_store(walk, store: Store):
    first = run(walk(), store=store)
    again = run(walk(), store=store)
    assert (first.reused, again.reused) == (False, True)
    assert again.manifest == first.manifest
    assert run(walk(), seed=1, store=store).digest != first.digest
    assert run(walk(drift=2), store=store).digest != first.digest


def test_the_same_seed_gives_the_same_bytes(walk, store: Store, tmp_path: Path):
    one, two = run(walk(), store=store), run(walk(), store=Store(tmp_path / "other"))
    a, b = content(one.folder), content(two.folder)
    differing = [name for name in a if a[name] != b[name]]
    assert differing == ["manifest.json"]


def test_another_version_runs_again(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    first = run(walk(), store=store)
    monkeypatch.setattr(execute, "__version__", "99")
    lines: list[str] = []
    again = run(walk(), store=store, warn=lines.append)
    assert not again.reused
    assert again.manifest["finished"] > first.manifest["finished"]
    assert lines == ["toy.walk: the code has changed since this was stored, so it runs again from the step 'measure'"]


def own(tmp_path: Path, text: str, name: str) -> Any:
    """The toy experiment as a file of the user's, in a certain state."""
    path = tmp_path / name / "mine.py"
    path.parent.mkdir()
    path.write_text(text)
    return registry.load(f"{path}::toy.walk")


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("0.1 * noise", "0.2 * noise", "measure"),
        ("self.drift * measured.step", "2 * self.drift * measured.step", "predict"),
        ("isel(step=-1, drop=True)", "isel(step=-2, drop=True)", "reduce"),
        ("self.steps / 2", "self.steps / 3", "judge"),
        ("figsize=(2, 2)", "figsize=(3, 2)", "draw"),
    ],
)
def test_only_the_steps_whose_code_has_changed_run_again(tmp_path: Path, store: Store, old: str, new: str, again: str):
    text = (Path(__file__).parent / "toy.py").read_text()
    first = run(own(tmp_path, text, "a")(), store=store)
    before = content(first.folder)
    edited = own(tmp_path, text.replace(old, new), "b")
    calls = []

    def noted(step: str, real: Any) -> Any:
        return lambda self, *parts: calls.append(step) or real(self, *parts)

    for step in STEPS:
        setattr(edited, step, noted(step, getattr(edited, step)))
    second = run(edited(), store=store)
    later = {
        "measure": [*STEPS],
        "predict": ["predict", "reduce", "judge", "draw"],
        "reduce": ["reduce", "judge", "draw"],
    }
    assert calls == later.get(again, [again])
    kept = {"judge": "figures/walk.png", "draw": "claims.json"}.get(again, "config.json")
    assert content(second.folder)[kept] == before[kept]
    assert run(edited(), store=store).reused


@pytest.mark.parametrize("where", ["predict", "reduce", "judge", "draw"])
def test_a_crash_after_measuring_keeps_the_measurement(walk, store: Store, where: str, monkeypatch):
    line = rf"^toy.walk: {where} failed: RuntimeError: told to crash in {where} \(traceback in "
    with pytest.raises(ExperimentCrash, match=line):
        run(walk(crash_in=where), store=store)
    (unfinished,) = (store.root / "toy.walk").iterdir()
    assert unfinished.name.endswith(".unfinished")
    assert "Traceback" in (unfinished / "crash.log").read_text()
    assert store.runs() == ([], [])
    monkeypatch.setattr(walk, "_perhaps", lambda self, where: None)
    monkeypatch.setattr(walk, "measure", lambda self, seed: pytest.fail("it was measured already"))
    done = run(walk(crash_in=where), store=store)
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "claims.json",
        "config.json",
        "figures",
        "manifest.json",
        "measured.nc",
        "predicted.nc",
        "reduced.nc",
    ]


@pytest.mark.parametrize("error", [InputError("too few steps"), DataNotFoundError("no data")])
@pytest.mark.parametrize("where", ["predict", "reduce", "judge", "draw"])
def test_an_input_error_after_measuring_keeps_the_measurement(walk, store: Store, where: str, error, monkeypatch):
    def refuse(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(walk, where, refuse)
        with pytest.raises(ExperimentCrash, match=rf"^toy.walk: {where} failed: {type(error).__name__}: {error}"):
            run(walk(), store=store)
    monkeypatch.setattr(walk, "measure", lambda self, seed: pytest.fail("it was measured already"))
    assert run(walk(), store=store).verdict == "holds"


def test_an_input_error_while_measuring_keeps_checkpoints_and_leaves_nothing_otherwise(walk, store: Store, monkeypatch):
    def refuse(keep: bool) -> Any:
        def measure(self: Any, seed: int) -> None:
            if keep:
                current_monitor().keep("walk", {"done": np.asarray(1)})
            raise InputError("too few steps")

        return measure

    for keep, left in ((False, []), (True, ["walk.npz"])):
        monkeypatch.setattr(walk, "measure", refuse(keep))
        with pytest.raises(UsageError, match=r"^toy\.walk: too few steps$"):
            run(walk(), store=store)
        assert [path.name for path in store.root.rglob("*.npz")] == left
        assert bool(list(store.root.rglob("*.unfinished"))) == keep


def test_a_kill_between_the_last_file_and_the_final_name_loses_nothing(walk, store: Store, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(draft_module, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(walk(), store=store)
    (unfinished,) = (store.root / "toy.walk").glob("*.unfinished")
    assert (unfinished / "manifest.json").exists()
    assert not (unfinished / "draft.json").exists(), "no finished folder may have it"
    assert run(walk(), store=store).reused
    assert not list(store.root.rglob("*.unfinished"))


def test_a_manifest_without_all_of_its_files_is_not_taken_for_a_run(walk, store: Store):
    done = run(walk(), store=store)
    unfinished = done.folder.rename(done.folder.with_name(f"{done.digest}.unfinished"))
    (unfinished / "reduced.nc").unlink()
    assert not run(walk(), store=store).reused


def test_a_run_that_is_judged_again_names_the_versions_that_measured_it(walk, store: Store, monkeypatch):
    first = run(walk(), store=store, draw=False)
    path = first.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["code"]["judge"] = "another"
    path.write_text(json.dumps(manifest))
    monkeypatch.setattr(steps, "package_versions", lambda: {"jax": "99.0"})
    again = run(walk(), store=store, draw=False)
    assert not again.reused
    assert again.manifest["versions"] == first.manifest["versions"]


def test_a_forced_run_replaces_only_when_complete(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    first = run(walk(), store=store)
    with monkeypatch.context() as patch:
        patch.setattr(walk, "judge", lambda *_: 1 / 0)
        with pytest.raises(ExperimentCrash, match="ZeroDivisionError"):
            run(walk(), store=store, force=True)
    kept = run(walk(), store=store)
    assert (kept.reused, kept.manifest) == (True, first.manifest)
    again = run(walk(), store=store, force=True)
    assert again.manifest["finished"] > first.manifest["finished"]
    assert [path.name for path in again.folder.parent.iterdir()] == [again.digest]


def test_ctrl_c_keeps_the_checkpoint(walk, store: Store):
    def interrupt(progress: Progress) -> None:
        if progress.done == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(walk(pause=1e-6), store=store, on_progress=interrupt)
    seen: list[float] = []
    done = run(walk(pause=1e-6), store=store, on_progress=lambda progress: seen.append(progress.done))
    assert seen[0] == 30
    assert done.manifest["resumed"]
    undisturbed = run(walk(pause=1e-6), store=Store(store.root.with_name("other")))
    assert content(done.folder)["measured.nc"] == content(undisturbed.folder)["measured.nc"]


def test_a_forced_run_goes_on_where_a_forced_run_was_interrupted(walk, store: Store):
    run(walk(pause=1e-6), store=store)

    def interrupt(progress: Progress) -> None:
        if progress.done == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(walk(pause=1e-6), store=store, force=True, on_progress=interrupt)
    assert run(walk(pause=1e-6), store=store).reused
    assert run(walk(pause=1e-6), store=store, force=True).manifest["resumed"]
    assert not run(walk(pause=1e-6), store=store, force=True).manifest["resumed"]


@pytest.mark.parametrize("room", range(8))
def test_a_full_disk_is_one_line_and_harms_nothing(walk, store: Store, monkeypatch, room: int):
    first = run(walk(), store=store)
    before = content(first.folder)
    real, calls = os.fsync, iter(range(1000))

    def fsync(handle: int) -> None:
        if next(calls) >= room:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", fsync)
        with pytest.raises(StoreError, match=r"^disk full while running toy.walk: free some space"):
            run(walk(), store=store, force=True)
    assert content(first.folder) == before
    assert run(walk(), store=store).reused
    assert not run(walk(), store=store, force=True).reused


def test_two_processes_do_not_work_on_the_same_run(walk, store: Store):
    with store.draft(Setting.of(walk())), pytest.raises(StoreError, match="another process is working on"):
        run(walk(), store=store)
    assert not run(walk(), store=store).reused


def test_an_experiment_computes_in_its_precision_and_theory_in_double(walk, store: Store, monkeypatch):
    def kinds(self, *_):
        return str(jnp.ones(1).dtype), str(jax.config.jax_default_matmul_precision)

    seen = {}

    def measure(self, seed):
        seen["measure"] = kinds(self)
        return xr.Dataset({"position": (("seed", "step"), np.zeros((4, 51)))}, {"step": np.arange(51)})

    def predict(self, measured):
        seen["predict"] = kinds(self)

    monkeypatch.setattr(walk, "measure", measure)
    monkeypatch.setattr(walk, "predict", predict)
    settings = {name: getattr(jax.config, name) for name in dir(jax.config) if name.startswith("jax_")}
    done = run(walk(), store=store)
    assert seen == {"measure": ("float32", "highest"), "predict": ("float64", "highest")}
    assert done.predicted() is None
    run(walk(precision="float64"), store=store)
    assert seen["measure"] == ("float64", "highest")
    assert {name: getattr(jax.config, name) for name in settings} == settings


def test_a_process_with_very_many_programs_forgets_them_before_a_run(walk, store: Store, monkeypatch):
    if not Path("/proc/self/maps").exists():
        pytest.skip("memory maps are counted in /proc")
    compiled = []

    @jax.jit
    def program(x):
        compiled.append(x)
        return x + 1

    program(1.0)
    run(walk(steps=20), store=store)
    program(1.0)
    assert len(compiled) == 1
    monkeypatch.setattr(machine, "MANY_MAPS", 10)
    monkeypatch.setattr(machine, "_looked", -1.0)  # it looks at most once a second
    run(walk(steps=20), store=store, force=True)
    program(1.0)
    assert len(compiled) == 2


@pytest.fixture
def no_compilation_cache() -> Iterator[None]:
    """As in a user's process: the tests' own cache is set aside."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.usefixtures("no_compilation_cache")
def test_the_compilation_cache_is_on_during_a_run_only(walk, store: Store, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    seen = []
    real = walk.measure
    monkeypatch.setattr(
        walk,
        "measure",
        lambda self, seed: seen.append(jax.config.jax_compilation_cache_dir) or real(self, seed),
    )
    run(walk(), store=store)
    assert seen == [str(tmp_path / "cache" / "compiled")]
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.filterwarnings("default:Error reading persistent")
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: zlib.compress(b"something else")])
def test_a_damaged_entry_of_the_compilation_cache_is_replaced(tmp_path: Path, damage):
    before = jax.config.jax_compilation_cache_dir
    machine._configure({"jax_compilation_cache_dir": str(tmp_path)})

    def program() -> float:
        with warnings.catch_warnings(record=True) as said, machine.compilation_cache():
            jax.clear_caches()
            found = float(jax.jit(lambda x: jnp.sin(x) + 0.125)(2.0))
        assert not [each for each in said if "persistent" in str(each.message)]
        return found

    try:
        first = program()
        entry = next(path for path in tmp_path.glob("*-cache") if "lambda" in path.name)
        entry.write_bytes(damage(entry.read_bytes()))
        damaged = entry.read_bytes()
        assert program() == first
        assert entry.read_bytes() != damaged
        assert program() == first
    finally:
        machine._configure({"jax_compilation_cache_dir": before})


def test_a_user_of_the_library_may_define_an_experiment_anywhere(store: Store, walk):
    Notebook = type("Notebook", (walk,), {"id": "toy.notebook", "__module__": "nowhere"})
    assert fingerprints(Notebook) == dict.fromkeys(STEPS, "")
    assert run(Notebook(), store=store).id == "toy.notebook"


def test_runs_in_other_threads_do_not_disturb(walk, store: Store, monkeypatch):
    """Two runs of other precision that overlap: each computes in its own, and leaves the bytes of a run alone."""
    both = threading.Barrier(2, timeout=60)

    def measure(self, seed):
        if threading.current_thread() is not threading.main_thread():
            both.wait()
        first = jnp.linspace(0.0, 1.0, 4)
        if threading.current_thread() is not threading.main_thread():
            both.wait()
        walked = jnp.cumsum(jnp.sin(first)[:, None] + jnp.ones(51) / 3, axis=1)
        return xr.Dataset({"position": (("seed", "step"), np.asarray(walked))}, {"step": np.arange(51)})

    monkeypatch.setattr(walk, "measure", measure)
    done: dict[str, StoredRun] = {}

    def go(precision: str) -> None:
        done[precision] = run(walk(precision=precision), store=store)

    threads = [threading.Thread(target=go, args=(precision,)) for precision in ("float32", "float64")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = Store(store.root.with_name("alone"))
    for precision, stored in done.items():
        assert stored.measured().position.dtype == precision
        undisturbed = run(walk(precision=precision), store=alone)
        assert content(stored.folder)["measured.nc"] == content(undisturbed.folder)["measured.nc"]
    assert sorted(done) == ["float32", "float64"]


def test_a_verdict_is_held_against_the_record(walk, store: Store, monkeypatch):
    def kept(known: dict[str, str], **fields: Any) -> tuple[str, list[str]]:
        monkeypatch.setattr(walk, "known_failures", known)
        stored = run(walk(**fields), store=store, force=True)
        return stored.verdict, stored.manifest["claims"]["news"]

    assert kept({}) == ("holds", [])
    assert kept({"climbs": "it does not"}) == ("fails", ["climbs"]), "it holds, though it is recorded as failing"
    assert kept({}, drift=0.1) == ("fails", ["climbs"])
    assert kept({"climbs": "too slow"}, drift=0.1) == ("fails", [])
    assert kept({"quick/climbs": "only there"}) == ("holds", [])
    assert kept({"quick/climbs": "only there"}, steps=20) == ("fails", ["climbs"])
    assert kept({}, drift=0.0) == ("fails", []), "of the control the main claim must fail"
    assert kept({}, drift=0.0, steps=20) == ("fails", [])
    monkeypatch.setattr(walk, "presets", {"quick": {"steps": 20}, "long": {"steps": 30}})
    assert kept({"long/climbs": "only there"}) == ("holds", [])
    assert kept({"long/climbs": "only there"}, steps=30) == ("fails", ["climbs"])
    assert kept({"quick/climbs": "only there"}, steps=30) == ("holds", [])
    assert kept({}, drift=0.0, steps=30) == ("fails", []), "every preset has its control"
    assert kept({}, drift=0.0, steps=31) == ("fails", []), "a changed control is a control"
    assert kept({}, drift=0.1, steps=31) == ("fails", ["climbs"])


def test_a_reason_over_several_lines_of_code_is_one_line(walk, store: Store, monkeypatch):
    monkeypatch.setattr(
        walk,
        "known_failures",
        {
            "climbs": """too slow
        for that"""
        },
    )
    assert run(walk(drift=0.1), store=store).claims[0].known == "too slow for that"


def test_a_run_on_other_data_is_another_run(walk, store: Store, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setattr(walk, "data_sets", lambda self: ("mine",))
    with pytest.raises(UsageError, match=r"toy.walk: .*mine.npz"):
        run(walk(), store=store)
    assert not store.root.exists()

    def with_data(value: int) -> StoredRun:
        x = np.full((2, 3), value)
        np.savez(tmp_path / "mine.npz", x_train=x, y_train=x[:, 0], x_test=x, y_test=x[:, 0])
        return run(walk(), store=store)

    first, second = with_data(1), with_data(2)
    assert first.digest != second.digest
    monkeypatch.setattr(walk, "predict", lambda self, measured: images.load("digits") and None)
    run(walk(), seed=1, store=store)  # theory may read what it likes
    real = walk.measure
    monkeypatch.setattr(walk, "measure", lambda self, seed: images.load("digits") and real(self, seed))
    with pytest.raises(ExperimentCrash, match="measure read the data set 'digits', which data_sets does not name"):
        run(walk(), seed=2, store=store)
    monkeypatch.setattr(walk, "data_sets", lambda self: ("mine", "digits"))
    assert set(run(walk(), seed=2, store=store).manifest["data"]) == {"mine", "digits"}
    monkeypatch.setattr(walk, "data_sets", lambda self: ("mine",))
    assert list(first.manifest["data"]) == ["mine"]
    assert with_data(1).reused


def test_a_run_of_an_earlier_version_is_replaced(walk, store: Store):
    first = run(walk(), store=store)
    manifest = json.loads((first.folder / "manifest.json").read_text())
    (first.folder / "manifest.json").write_text(json.dumps({**manifest, "format": 1}))
    assert "was written by an earlier version of dynascope" in store.runs()[1][0]
    assert not run(walk(), store=store).reused
    assert run(walk(), store=store).reused
