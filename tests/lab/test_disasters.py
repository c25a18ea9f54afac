"""kill -9, Ctrl-C and a full disk, on real processes: nothing stored is lost, and work goes on to the same bits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import pytest

from dynascope.lab.inventory import inventory
from dynascope.lab.store import Store
from dynascope.lab.sweeps import sweep
from dynascope.lab.sweeps.plan import plan

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-m", "dynascope.cli"]
TOY = f"{HERE / 'toy.py'}::toy.walk"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["moments", pytest.param("writes", marks=pytest.mark.long)])
def test_kill_nine_loses_nothing(mode: str):
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk would have us wait for every fsync
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        command = [sys.executable, str(HERE / "killer.py"), mode, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "times" in done.stdout


def hearing_ctrl_c(command: list[str]) -> list[str]:
    """A shell that runs the tests in the background has its children ignore Ctrl-C; this command does not."""
    become = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", become, *command]


def test_ctrl_c_is_one_line_and_the_same_command_goes_on(tmp_path: Path):
    settings = ["--set", "pause=0.02", "--set", "steps=100", "--jobs", "1"]
    command = [*COMMAND, "run", TOY, *settings, "--runs", str(tmp_path / "runs")]
    process = subprocess.Popen(hearing_ctrl_c(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("runs/*/*.unfinished/checkpoints/*.npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.splitlines()[1:] == ["dynascope: interrupted in [1/1] toy.walk; the same command continues from here"]
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    (found,) = Store(tmp_path / "runs").runs()[0]
    assert found.manifest["resumed"]
    assert not list(tmp_path.glob("runs/*/*.unfinished"))


def test_a_really_full_disk(tmp_path: Path):
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode:
        pytest.skip("a file system of our own cannot be mounted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size=160k tmpfs {disk} || exit 77
        dynascope() {{ {sys.executable} -m dynascope.cli "$@" --runs {disk}/runs; }}
        dynascope run {TOY} --set steps=5 > {tmp_path}/first || exit 1
        dynascope run {TOY} --set steps=5000 > {tmp_path}/second 2> {tmp_path}/errors && exit 2
        echo $? > {tmp_path}/status
        dynascope run {TOY} --set steps=5 --json > {tmp_path}/third || exit 3
    """
    done = subprocess.run([unshare, "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=300)
    if done.returncode == 77:
        pytest.skip("a file system of our own cannot be mounted here")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "status").read_text() == "1\n"
    lines = (tmp_path / "errors").read_text().splitlines()
    assert len(lines) == 2, lines
    assert lines[1].startswith("dynascope: disk full while running toy.walk")
    assert json.loads((tmp_path / "third").read_text())[0]["reused"]


@pytest.mark.long
def test_a_sweep_over_processes_can_be_interrupted_and_goes_on(tmp_path: Path):
    grid = ["--grid", "drift=0,1,2,3", "--set", "pause=0.03", "--jobs", "2", "--runs", str(tmp_path / "runs")]
    command = [*COMMAND, "sweep", TOY, *grid]
    process = subprocess.Popen(
        hearing_ctrl_c(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while not Store(tmp_path / "runs").runs()[0] and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert 1 <= len(Store(tmp_path / "runs").runs()[0]) < 4
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert len(Store(tmp_path / "runs").runs()[0]) == 4


@pytest.mark.long
def test_a_cluster_that_is_starting_can_be_interrupted_in_one_line(tmp_path: Path):
    words = ["--grid", "drift=0,1", "--executor", "dask:local:2", "--runs", str(tmp_path / "runs")]
    command = [*COMMAND, "sweep", TOY, *words]
    process = subprocess.Popen(hearing_ctrl_c(command), stderr=subprocess.PIPE, text=True, start_new_session=True)
    tasks, deadline = Path(f"/proc/{process.pid}/task"), time.monotonic() + 300

    def children() -> list[str]:
        return [pid for task in tasks.glob("*/children") for pid in task.read_text().split()]

    while len(children()) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    started = children()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.splitlines() == ["dynascope: interrupted; the same command continues from here"]
    assert len(started) >= 3, "two workers, and the tracker of Python's own"
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
@pytest.mark.parametrize("by", ["--jobs 1", "--jobs 2", "--executor dask:local:2"])
def test_a_full_and_a_read_only_store_end_a_sweep_in_one_line(tmp_path: Path, by: str):
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode:
        pytest.skip("a file system of our own cannot be mounted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size=400k tmpfs {disk} || exit 77
        dynascope() {{ {sys.executable} -m dynascope.cli sweep {TOY} {by} "$@" --runs {disk}/runs; }}
        dynascope --grid drift=1 --set steps=5 > {tmp_path}/first || exit 1
        dynascope --grid drift=1,2,3 --set steps=9000 2> {tmp_path}/full && exit 2
        rm -rf {disk}/runs/toy.walk/*.unfinished
        mount -o remount,ro {disk} || exit 77
        dynascope --grid drift=1 --set steps=5 > {tmp_path}/again || exit 3
        dynascope --grid drift=1,2,3 --set steps=6 2> {tmp_path}/only && exit 4
        exit 0
    """
    done = subprocess.run([unshare, "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=300)
    if done.returncode == 77:
        pytest.skip("a file system of our own cannot be mounted here")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again").read_text() == (tmp_path / "first").read_text()
    whys = {"full": "disk full while running toy.walk", "only": f"the run store {disk}/runs cannot be written to"}
    for name, why in whys.items():
        _, line = (tmp_path / name).read_text().splitlines()
        assert line.startswith(f"dynascope: {why}"), line


@pytest.mark.long
@pytest.mark.parametrize("by", [["--jobs", "2"], ["--executor", "dask:local:2"]], ids=["pool", "dask"])
def test_a_sweep_needs_no_home_and_no_language(tmp_path: Path, by: list[str]):
    words = ["--grid", "drift=0,1", "--set", "steps=5", "--set", "note=größer", "--runs", "läufe"]
    bare = {"PATH": os.environ["PATH"], "LANG": "C"}
    command = [*COMMAND, "sweep", TOY, *words, *by]
    done = subprocess.run(command, env=bare, cwd=tmp_path, capture_output=True, timeout=300)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["läufe"]
    found = Store(tmp_path / "läufe").runs()[0]
    assert [run.config["note"] for run in found] == ["größer", "größer"]


@pytest.mark.long
def test_two_commands_at_once_in_one_store_share_the_work(tmp_path: Path):
    """One has processes of its own, the other a cluster; each run is measured once."""
    log = tmp_path / "log"
    words = ["--grid", "drift=0,1,2,3,4,5", "--set", "pause=0.01", "--set", f"log={log}", "--runs", f"{tmp_path}/runs"]
    command = [*COMMAND, "sweep", TOY, *words, "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([*command, *by], **pipes) for by in (["--jobs", "2"], ["--executor", "dask:local:2"])]
    (one, said), (two, also) = (process.communicate(timeout=300) for process in both)
    assert [process.returncode for process in both] == [0, 0], said + also
    assert json.loads(one) == json.loads(two)
    assert len(log.read_text().splitlines()) == 6
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["toy.walk"], "no token is left behind"


def test_a_clock_that_is_set_back_changes_no_result(walk, store: Store, tmp_path: Path, monkeypatch):
    grid, base = {"drift": [0.0, 1.0]}, {"steps": 5}
    monkeypatch.setattr("dynascope.lab.sweeps.figures.draw", lambda _: ())
    calm = sweep(walk, grid, base=base, store=Store(tmp_path / "calm"))
    now, ticks = time.time(), count()
    monkeypatch.setattr(time, "time", lambda: now - 86400 * next(ticks))
    monkeypatch.setattr("dynascope.lab.steps._now", lambda: f"{2030 - next(ticks)}-01-01T00:00:00.000+00:00")
    sweep(walk, {"drift": [0.0]}, base=base, store=store)
    back = sweep(walk, grid, base=base, store=store)
    assert (Path(back.folder) / "sweep.nc").read_bytes() == (Path(calm.folder) / "sweep.nc").read_bytes()
    assert plan(walk, grid, base=base, store=store).missing == []
    assert [item.age for item in inventory(store, sweeps=True)] == [0.0, 0.0], "nothing is older than it is"
