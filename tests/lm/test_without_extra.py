"""What the command does about experiments that need what is not there, and that nothing imports PyTorch unasked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dynascope import cli
from dynascope.experiments.recall.pretrained import Pretrained
from dynascope.lab.errors import UsageError
from dynascope.lab.run import run
from dynascope.lm import extra

WALK = f"{Path(__file__).parents[1] / 'lab' / 'toy.py'}::toy.walk"


@pytest.fixture
def dynascope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The command where a package of the extra is missing: its status and the lines for the person."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extra, "PACKAGES", ("transformers_that_is_not_there",))

    def call(*words: str) -> tuple[int, list[str]]:
        monkeypatch.setattr(sys, "argv", ["dynascope", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), capsys.readouterr().err.splitlines()

    return call


ADVICE = "transformers_that_is_not_there is missing; install with: pip install 'dynascope[lm]'"


def test_by_its_name_it_is_refused_in_one_line(dynascope):
    assert dynascope("run", "recall.pretrained", "--preset", "quick") == (
        2,
        [f"dynascope: recall.pretrained: {ADVICE}"],
    )
    assert dynascope("audit", "recall.pretrained")[0] == 2


def test_a_folder_of_checkpoints_needs_it_too(dynascope, tmp_path):
    given = ("--set", f"checkpoints={tmp_path}", "--preset", "quick")
    assert dynascope("run", "recall.checkpoints", *given) == (2, [f"dynascope: recall.checkpoints: {ADVICE}"])


def test_a_pattern_leaves_it_out_and_runs_the_others(dynascope):
    status, lines = dynascope("run", "recall.pretr*", WALK, "--preset", "quick", "--jobs", "1")
    assert status == 0
    assert lines[0] == f"dynascope: recall.pretrained is left out: {ADVICE}"
    assert lines[1:] == ["dynascope: [1/1] toy.walk ..."]


def test_in_a_program_it_is_refused_too(dynascope, store):
    with pytest.raises(UsageError, match="transformers_that_is_not_there is missing"):
        run(Pretrained(), store=store)


@pytest.mark.slow
def test_the_library_and_its_experiments_import_no_torch():
    program = "import sys, dynascope.lm, dynascope.experiments.recall.pretrained; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
