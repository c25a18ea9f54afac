"""GSM8K: word problems of grade-school mathematics (Cobbe et al. 2021)."""

from __future__ import annotations

import gzip
import json

from dynascope.tasks.arithmetic import Problem
from dynascope.tasks.data import catalog, files


def problems() -> list[Problem]:
    """The 1,319 test problems, from the file that `dynascope data` names."""
    (path,) = catalog.find("gsm8k")
    files.record("gsm8k")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        rows = [json.loads(line) for line in raw.decode("utf-8").splitlines() if line.strip()]
        return [Problem(row["question"], _number(row["answer"])) for row in rows]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged, or no file of questions and answers ({type(error).__name__})") from None


def _number(answer: str) -> float:
    return float(answer.rpartition("####")[2].strip().replace(",", "").replace("$", ""))
