"""GSM8K: word problems of grade-school mathematics (Cobbe et al. 2021)."""

from __future__ import annotations

import json

from dynascope.tasks.arithmetic import Problem
from dynascope.tasks.data import catalog, files, packed


def problems() -> list[Problem]:
    """The 1,319 test problems, from the file that `dynascope data` names."""
    (path,) = catalog.find("gsm8k")
    files.record("gsm8k")
    try:
        lines = packed.read_bytes(path).decode("utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return [Problem(row["question"], _number(row["answer"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged, or no file of questions and answers ({type(error).__name__})") from None


def _number(answer: str) -> float:
    return float(answer.rpartition("####")[2].strip().replace(",", "").replace("$", ""))
