"""A cluster from a file: wrong files are one line, and jobs are what the file says."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dynascope.lab.errors import UsageError
from dynascope.lab.workers.deployment import deploy
from dynascope.lab.workers.executors import choose

pytest.importorskip("distributed", reason="needs dask: pip install 'dynascope[cluster]'")
pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue: pip install 'dynascope[cluster]'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind = ", "is not TOML"),
        ("", "kind must be one of local, slurm, pbs, sge, kubernetes; got None"),
        ('kind = "slrm"\njobs = 1', "kind must be one of .*; got 'slrm'; did you mean 'slurm'"),
        ('kind = "slurm"', "jobs must be an integer, at least 1; got None"),
        ('kind = "slurm"\njobs = true', "jobs must be an integer, at least 1; got True"),
        ('kind = "slurm"\njobs = 0', "jobs must be an integer, at least 1; got 0"),
        ('kind = "slurm"\njob = 1', "'job' is none of kind, jobs and options; did you mean 'jobs'"),
        ('kind = "slurm"\njobs = 1\noptions = 3', "options must be a table; got 3"),
        (
            'kind = "slurm"\njobs = 1\n[options]\nmemry = "1GB"',
            "options.memry is not an option of SLURMCluster; did you",
        ),
        ('kind = "slurm"\njobs = 1\n[options]\ncores = 4', "options.cores is always 1"),
        ('kind = "slurm"\njobs = 1\n[options]\nmemory = 3', "the slurm cluster failed to start"),
        ('kind = "slurm"\njobs = 1', "the slurm cluster failed to start: ValueError: You must specify how much cores"),
        ('kind = "pbs"\njobs = 1', "kind pbs needs the command qsub, which was not found"),
        ('kind = "local"\njobs = 1\n[options]\nmemory = 3', "options.memory is not an option of kind local"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _command(tmp_path, "sbatch", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "cluster.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        deploy(str(file))
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_and_a_package_that_is_not():
    with pytest.raises(UsageError, match=r"^nowhere.toml cannot be read \(No such file"):
        deploy("nowhere.toml")


def test_kubernetes_gets_its_options_and_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "cluster.toml"
    file.write_text('kind = "kubernetes"\njobs = 3\n[options]\nimage = "mine"\n')
    monkeypatch.setitem(sys.modules, "dask_kubernetes", None)
    with pytest.raises(UsageError, match="kind kubernetes needs dask-kubernetes: pip install 'dask-kubernetes'"):
        deploy(str(file))
    made: list[Any] = []

    class Kube:
        def __init__(self, **given: Any):
            self.given, self.closed = given, False
            made.append(self)

        def close(self, timeout: float) -> None:
            self.closed = True

    module = ModuleType("dask_kubernetes.operator")
    module.__dict__["KubeCluster"] = Kube
    monkeypatch.setitem(sys.modules, "dask_kubernetes", ModuleType("dask_kubernetes"))
    monkeypatch.setitem(sys.modules, "dask_kubernetes.operator", module)
    deployed = deploy(str(file))
    assert made[0].given["n_workers"] == 3
    assert made[0].given["image"] == "mine"
    assert "--nthreads 1" in " ".join(made[0].given["worker_command"])
    deployed.close()
    assert made[0].closed


def test_a_queue_carries_out_calls_and_its_jobs_are_canceled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With commands that look like Slurm's and start the job at once."""
    log = tmp_path / "log"
    _command(tmp_path, "sbatch", f'cp "$1" {log}.sh; setsid sh {log}.sh > {log} 2>&1 & echo "Submitted batch job $!"')
    _command(tmp_path, "scancel", f'echo "$1" >> {tmp_path}/canceled; kill -9 -- "-$1" 2> /dev/null')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "cluster.toml"
    file.write_text(
        'kind = "slurm"\njobs = 1\n[options]\nmemory = "1GB"\njob_cpu = 3\njob_script_prologue = ["export MINE=4"]\n'
        f'scheduler_options = {{ host = "127.0.0.1" }}\nlocal_directory = "{tmp_path}/scratch"\n'
    )
    with choose(f"dask:{file}") as cluster:
        assert cluster.submit(os.getenv, "MINE").result() == "4"
        assert cluster.submit(os.getenv, "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE").result() == "False"
    script = Path(f"{log}.sh").read_text()
    assert "#SBATCH --cpus-per-task=3" in script
    assert "--nthreads 1" in script
    assert "--no-dashboard" in script
    assert f"#SBATCH -o {tmp_path}/cache/jobs/" in script
    assert (tmp_path / "canceled").read_text().split()
    assert not list(tmp_path.glob("dask-*"))


def _command(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
