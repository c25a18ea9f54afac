"""A dask cluster: workers that are killed or have no memory left, a scheduler that goes away, disks of their own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynascope.lab.errors import ClusterLost, UsageError, WorkerLost
from dynascope.lab.store import Store
from dynascope.lab.sweeps import sweep
from dynascope.lab.workers.executors import choose, stop

distributed = pytest.importorskip("distributed", reason="needs dask: pip install 'dynascope[cluster]'")

HERE = Path(__file__).parent
TOY = f"{HERE / 'toy.py'}::toy.walk"
SWEEP = [sys.executable, "-m", "dynascope.cli", "sweep", TOY]


@pytest.fixture(scope="module", autouse=True)
def deeds() -> Iterator:
    """What workers do, in a module that they can import. They start faster with what Python has compiled already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.delenv("PYTHONPYCACHEPREFIX", raising=False)
        import deeds  # pyright: ignore[reportMissingImports]

        yield deeds


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """Two workers on this machine, with little memory, and two devices that are not there."""
    file = tmp_path_factory.mktemp("cluster") / "small.toml"
    file.write_text('kind = "local"\njobs = 2\n[options]\nmemory_limit = "2GiB"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
        patch.delenv("JAX_PLATFORMS", raising=False)
        with choose(f"dask:{file}") as cluster:
            yield cluster


def test_each_worker_has_cores_and_a_device_of_its_own(small, deeds, tmp_path: Path):
    found = [future.result() for future in [small.submit(deeds.share, tmp_path, 2) for _ in range(2)]]
    assert sorted(device for device, _, _ in found) == ["4", "7"]


def test_what_a_call_returns_or_raises(small, deeds, tmp_path: Path):
    assert [small.submit(pow, 2, k).result() for k in range(3)] == [1, 2, 4]
    error = small.submit(deeds.fail, tmp_path).exception()
    assert (type(error), str(error)) == (ValueError, "attempt 1"), "what the function raises is not tried again"


def test_a_killed_worker_costs_its_own_call_and_that_is_tried_again(small, deeds, tmp_path: Path):
    assert small.submit(deeds.die, tmp_path, 1).result() == 2


@pytest.mark.long
def test_a_worker_that_runs_out_of_memory_every_time(small, deeds, tmp_path: Path):
    lost, others = small.submit(deeds.swallow, tmp_path, 6.0), [small.submit(abs, -k) for k in range(9)]
    with pytest.raises(WorkerLost, match=r"^its worker died, perhaps for lack of memory, and again in all 2"):
        lost.result()
    assert len(list(tmp_path.iterdir())) == 3
    assert [future.result() for future in others] == list(range(9))


def _bits(store: Store) -> dict[str, dict[str, str]]:
    """The checksums of all results."""
    return {run.digest: run.verify().manifest["files"] for run in store.runs()[0]}


def test_it_listens_to_this_machine_only(small):
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = {inode for pid in [os.getpid(), *_children()] for inode in _sockets(pid)}
    addresses = {fields[1].partition(":")[0] for fields in listening if fields[3] == "0A" and fields[9] in ours}
    assert addresses == {"0100007F"}
    everywhere = [line.split()[9] for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    assert not ours & set(everywhere)


def _children() -> list[int]:
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def _sockets(pid: int) -> set[str]:
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def test_stopping_ends_what_is_under_way_at_once(deeds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with choose("dask:local:1") as cluster:
        assert list(scratch.iterdir())
        running = cluster.submit(deeds.linger, tmp_path)
        deeds.until((tmp_path / "holding").exists)
        stop(cluster)
        deeds.until(lambda: deeds.is_free(tmp_path / "lock"))
        assert running.cancelled()
    assert list(scratch.iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"attempt-1", "holding", "lock", "scratch"}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[subprocess.Popen, str]]:
    """A scheduler of its own, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "scheduler.log").open("w") as log:
        process = subprocess.Popen([*command, "--no-dashboard", "--no-show"], stdout=log, stderr=log, cwd=tmp_path)
    yield process, f"tcp://127.0.0.1:{port}"
    process.kill()
    process.wait()


@pytest.fixture
def worker(scheduler, tmp_path: Path) -> Iterator:
    """Starts a worker of that scheduler."""
    started = []
    options = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / "scratch")]
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler[1], *options]

    def start(before: str = "") -> subprocess.Popen:
        script = f"{before} exec {' '.join(command)}"
        outer = ["unshare", "-rm", "sh", "-c", script] if before else ["sh", "-c", script]
        with (tmp_path / "worker.log").open("w") as log:
            environment = {**os.environ, "PYTHONPATH": str(HERE)}
            started.append(
                subprocess.Popen(outer, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=tmp_path)
            )
        return started[-1]

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.long
def test_a_scheduler_that_goes_away_ends_the_sweep_in_one_line_and_it_goes_on(scheduler, worker, deeds, walk, store):
    process, address = scheduler
    worker()
    command = [*SWEEP, "--grid", "drift=0,1,2,3", "--set", "pause=0.03", "--runs", str(store.root)]
    running = subprocess.Popen([*command, "--executor", f"dask:{address}"], stderr=subprocess.PIPE, text=True)
    first = deeds.until(lambda: store.runs()[0])[0]
    process.kill()
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 1
    assert "Traceback" not in errors
    assert errors.splitlines()[-1] == f"dynascope: the dask scheduler at {address} has gone; finished runs are stored"
    deeds.until(lambda: not list(store.root.glob("*/*.lock")))  # the worker ends the run that it is at
    assert not list(store.root.glob(".here*"))
    sweep(walk, {"drift": [0.0, 1.0, 2.0, 3.0]}, base={"pause": 0.03}, store=store)
    stored = store.runs()[0]
    assert len(stored) == 4
    assert first.manifest["finished"] in [run.manifest["finished"] for run in stored], "it was not run again"


@pytest.mark.slow
def test_a_worker_with_other_disks_sends_its_runs_back(scheduler, worker, tmp_path: Path, walk, store: Store):
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("a file system of our own cannot be mounted here")
    store.root.mkdir()
    worker(f"mount -t tmpfs tmpfs {store.root} || exit 77;")
    with choose(f"dask:{scheduler[1]}") as cluster:
        sweep(walk, {"drift": [0.0, 1.0]}, base={"steps": 5}, store=store, executor=cluster)
        sweep(walk, {"crash_in": ["judge"]}, base={"steps": 5}, store=store, executor=cluster)
    sweep(walk, {"drift": [0.0, 1.0]}, base={"steps": 5}, store=Store(tmp_path / "here"))
    assert _bits(store) == _bits(Store(tmp_path / "here"))
    assert len(_bits(store)) == 2
    assert len(list(store.root.glob("*/*/crash.log"))) == 1


def test_a_scheduler_that_has_gone_takes_no_calls(scheduler, worker, deeds, tmp_path: Path):
    process, address = scheduler
    worker()
    with choose(f"dask:{address}") as cluster:
        running = cluster.submit(deeds.linger, tmp_path)
        deeds.until((tmp_path / "holding").exists)
        process.kill()
        assert isinstance(running.exception(), ClusterLost)
        with pytest.raises(ClusterLost, match=f"the dask scheduler at {address} has gone"):
            cluster.submit(abs, -1)


@pytest.mark.parametrize("where", ["local:0", "local:two", "local", "nowhere", "tcp://", "tcp://a b:1"])
def test_wrong_names_are_one_line(where: str):
    with pytest.raises(UsageError, match=f"got '?dask:{where}'?$"):
        choose(f"dask:{where}")


def test_a_scheduler_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dynascope.lab.workers.cluster.PATIENCE", 0.2)
    with pytest.raises(UsageError, match=r"^no dask scheduler answers at tcp://127.0.0.1:1 \("):
        choose("dask:tcp://127.0.0.1:1")


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"dask:tcp://nowhere:1 needs dask: pip install 'dynascope\[cluster\]'"):
        choose("dask:tcp://nowhere:1")
