"""A run: what it leaves, when it is reused, and that nothing measured is ever lost."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from dynascope.lab import files, registry, run as run_module, settings
from dynascope.lab.errors import ExperimentCrash, StoreError
from dynascope.lab.monitor import Progress
from dynascope.lab.provenance import fingerprint
from dynascope.lab.run import run
from dynascope.lab.store import Store, StoredRun


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
        "diagnosis",
    }
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
    monkeypatch.setattr(run_module, "__version__", "99")
    lines: list[str] = []
    again = run(walk(), store=store, warn=lines.append)
    assert not again.reused
    assert again.manifest["finished"] > first.manifest["finished"]
    assert lines == ["toy.walk: the code has changed since this was stored, so it runs again"]


def own(tmp_path: Path, text: str, name: str) -> Any:
    """The toy experiment as a file of the user's, in a certain state."""
    path = tmp_path / name / "mine.py"
    path.parent.mkdir()
    path.write_text(text)
    return registry.load(f"{path}::toy.walk")


def test_a_change_of_a_claim_judges_the_old_measurement(tmp_path: Path, store: Store):
    text = (Path(__file__).parent / "toy.py").read_text()
    first = run(own(tmp_path, text, "a")(), store=store)
    edited = own(tmp_path, text.replace("the walk climbs", "up it goes"), "b")
    again = run(edited(), store=store)
    assert not again.reused
    assert again.claims[0].statement == "up it goes"
    assert again.manifest["started"] == first.manifest["started"]
    remade = run(own(tmp_path, text.replace("0.1 * noise", "0.2 * noise"), "c")(), store=store)
    assert remade.manifest["started"] > first.manifest["started"]
    assert not remade.measured().equals(first.measured() if first.folder != remade.folder else again)


@pytest.mark.parametrize("where", ["predict", "judge", "draw"])
def test_a_crash_after_measuring_keeps_the_measurement(walk, store: Store, where: str, monkeypatch):
    with pytest.raises(ExperimentCrash, match=rf"^toy.walk: RuntimeError: told to crash in {where} \(traceback in "):
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
    ]


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
    with store.draft(walk(), 0), pytest.raises(StoreError, match="another process is working on"):
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
    monkeypatch.setattr(settings, "MANY_MAPS", 10)
    run(walk(steps=20), store=store, force=True)
    program(1.0)
    assert len(compiled) == 2


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


def test_a_user_of_the_library_may_define_an_experiment_anywhere(store: Store, walk):
    Notebook = type("Notebook", (walk,), {"id": "toy.notebook", "__module__": "nowhere"})
    assert fingerprint(Notebook) == {"all": "", "measure": ""}
    assert run(Notebook(), store=store).id == "toy.notebook"


def test_runs_in_other_threads_do_not_disturb(walk, store: Store):
    done: list[StoredRun] = []
    threads = [threading.Thread(target=lambda k=k: done.append(run(walk(), seed=k, store=store))) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(stored.seed for stored in done) == [0, 1]
