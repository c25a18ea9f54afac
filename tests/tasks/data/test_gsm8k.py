"""GSM8K is read from the file that the catalog names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dynascope.tasks.data import files, gsm8k


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_answer_is_the_number_after_the_mark(folder: Path):
    rows = [
        {"question": "How many?", "answer": "1 + 1 = <<1+1=2>>2\n#### 2"},
        {"question": "?", "answer": "#### 1,234"},
    ]
    text = "\n".join(json.dumps(row) for row in rows)
    (folder / "gsm8k_test.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    with files.record_reads() as read:
        found = gsm8k.problems()
    assert [problem.answer for problem in found] == [2, 1234]
    assert read == {"gsm8k"}


def test_a_missing_and_a_damaged_file_are_told_in_one_line(folder: Path):
    with pytest.raises(files.DataNotFoundError, match="no data set 'gsm8k' on this machine; get it by hand"):
        gsm8k.problems()
    (folder / "gsm8k_test.jsonl").write_text("no json")
    with pytest.raises(ValueError, match="is damaged, or no file of questions and answers"):
        gsm8k.problems()
