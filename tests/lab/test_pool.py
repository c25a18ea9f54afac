"""Processes on this machine: one that is killed costs its own call at most, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dynascope.lab.errors import ClusterLost, UsageError, WorkerLost
from dynascope.lab.workers.devices import gpus
from dynascope.lab.workers.executors import InProcess, choose, stop
from dynascope.lab.workers.pool import Pool

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def deeds(monkeypatch: pytest.MonkeyPatch):
    """What workers do, in a module that they can import."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)  # processes start faster with what is compiled already
    import deeds  # pyright: ignore[reportMissingImports]

    return deeds


def test_executors_by_name():
    assert isinstance(choose("local"), InProcess)
    with choose("local", 2) as pool:
        assert isinstance(pool, Pool)
    for name in ("locl", "dask", "dask:", "slurm:4"):
        with pytest.raises(UsageError, match="executor must be local, dask:tcp://HOST:PORT, dask:local:N or"):
            choose(name)


def test_what_a_call_returns_or_raises(deeds, tmp_path: Path):
    with Pool(2) as pool:
        powers = [pool.submit(pow, 2, k) for k in range(9)]
        failing, sending, reading = (
            pool.submit(deeds.fail, tmp_path),
            pool.submit(deeds.unsendable),
            pool.submit(abs, 1),
        )
        assert [future.result() for future in powers] == [2**k for k in range(9)]
        error = failing.exception()
        assert (type(error), str(error)) == (ValueError, "attempt 1"), "what the function raises is not tried again"
        assert "in deeds.py" not in str(error)
        assert 'deeds.py", line' in error.__notes__[0]
        assert "its result cannot be sent" in str(sending.exception())
        assert type(pool.submit(deeds.stubborn).exception()) is TypeError
        assert reading.result() == 1


def test_a_killed_process_costs_its_own_call_and_that_is_tried_again(deeds, tmp_path: Path):
    (tmp_path / "calm").mkdir()
    with Pool(2) as pool:
        calm = pool.submit(deeds.linger, tmp_path / "calm")
        deeds.until((tmp_path / "calm" / "holding").exists)
        assert pool.submit(deeds.die, tmp_path, 2).result() == 3
        (tmp_path / "calm" / "go").touch()
        assert calm.result() == 1, "its process was not disturbed"


def test_a_call_that_kills_its_process_every_time_is_given_up(deeds, tmp_path: Path):
    with Pool(1) as pool:
        lost, after = pool.submit(deeds.die, tmp_path, 99), pool.submit(abs, -1)
        with pytest.raises(WorkerLost, match=r"^its process died \(SIGKILL, perhaps for lack of memory\), and again"):
            lost.result()
        assert len(list(tmp_path.iterdir())) == 3
        assert after.result() == 1


def test_a_process_that_dies_between_two_calls_is_replaced(deeds):
    with Pool(1) as pool:
        before = pool.submit(os.getpid).result()
        os.kill(before, signal.SIGKILL)
        assert pool.submit(os.getpid).result() != before


def test_a_script_that_its_processes_run_again_is_told(tmp_path: Path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from dynascope.lab.workers.pool import Pool\n"
        "with Pool(2) as pool:\n"
        "    futures = [pool.submit(abs, -number) for number in range(4)]\n"
        "for future in futures:\n"
        "    raise future.exception()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("dynascope.lab.errors.ClusterLost: worker processes do not start")


def test_shutting_down(deeds, tmp_path: Path):
    pool = Pool(1)
    running, waiting = pool.submit(deeds.linger, tmp_path), pool.submit(abs, -1)
    deeds.until((tmp_path / "holding").exists)
    pool.shutdown(wait=False, cancel_futures=True)
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(abs, -1)
    (tmp_path / "go").touch()
    assert running.result() == 1
    pool.shutdown()


def test_stopping_ends_what_is_under_way_at_once(deeds, tmp_path: Path):
    with Pool(2) as pool:
        running, waiting = pool.submit(deeds.linger, tmp_path), [pool.submit(deeds.linger, tmp_path) for _ in range(3)]
        deeds.until((tmp_path / "holding").exists)
        stop(pool)
        assert deeds.is_free(tmp_path / "lock"), "no process is left"
        assert isinstance(running.exception(), ClusterLost)
        assert waiting[-1].cancelled()


def test_processes_end_with_a_parent_that_is_killed(deeds, tmp_path: Path):
    script = tmp_path / "parent.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "from pathlib import Path\nimport deeds\nfrom dynascope.lab.workers.pool import Pool\n"
        "if __name__ == '__main__':\n"
        f"    Pool(1).submit(deeds.linger, Path({str(tmp_path)!r})).result()\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)])
    deeds.until((tmp_path / "holding").exists)
    parent.kill()
    parent.wait()
    deeds.until(lambda: deeds.is_free(tmp_path / "lock"))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not hand out cores")
def test_each_process_has_cores_and_a_device_of_its_own(deeds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    for name, devices, expected in (("two", "4,7", ["4", "7"]), ("one", "GPU-1", ["GPU-1", "GPU-1"])):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
        with Pool(2) as pool:
            found = [future.result() for future in [pool.submit(deeds.share, tmp_path / name, 2) for _ in range(2)]]
        assert sorted(device for device, _, _ in found) == expected
        assert {share for _, share, _ in found} == ({None} if name == "two" else {"0.375"})
        assert sum(cores for _, _, cores in found) in (2, len(os.sched_getaffinity(0)))


def test_devices_are_counted_without_waking_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lister = tmp_path / "nvidia-smi"
    lister.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA X (UUID: GPU-a)'\necho 'GPU 1: NVIDIA X (UUID: GPU-b)'\n")
    lister.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    assert gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpus() == ["1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpus() == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert gpus() == []
