"""Cold start of the command: `dynascope list`, beside the import of what a run needs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.timing import tell

COMMANDS = {
    "dynascope list": [str(Path(sys.executable).parent / "dynascope"), "list"],
    "dynascope show concept.signal-order": [
        str(Path(sys.executable).parent / "dynascope"),
        "show",
        "concept.signal-order",
    ],
    "python -c 'import dynascope'": [sys.executable, "-c", "import dynascope"],
    "python -c 'import jax'": [sys.executable, "-c", "import jax"],
}


def main() -> None:
    rows = []
    for name, command in COMMANDS.items():
        times = []
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times.append(time.perf_counter() - start)
        rows.append({"command": name, "median s": round(statistics.median(times), 2), "worst s": round(max(times), 2)})
    tell("cold-start: whole commands, wall clock", rows)


if __name__ == "__main__":
    main()
