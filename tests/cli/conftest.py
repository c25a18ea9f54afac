"""The command, called in the process of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dynascope import cli


@pytest.fixture
def dynascope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command in this process; returns status, output and the lines for the person."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["dynascope", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, errors = capsys.readouterr()
        return int(ended.value.code or 0), out, errors.splitlines()

    return call
