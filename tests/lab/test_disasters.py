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
from pathlib import Path

import pytest

from dynascope.lab.store import Store

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


def test_a_full_and_a_read_only_store_end_a_sweep_in_one_line(tmp_path: Path):
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode:
        pytest.skip("a file system of our own cannot be mounted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size=400k tmpfs {disk} || exit 77
        dynascope() {{ {sys.executable} -m dynascope.cli sweep {TOY} "$@" --runs {disk}/runs; }}
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
