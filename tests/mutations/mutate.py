"""Break the science on purpose, one break at a time: each must turn a claim or a test red.

`make mutate` runs it; `python tests/mutations/mutate.py catapult` takes the breaks of one file. The breaks are in the
`.toml` files beside this one. Each is made in a copy of the package. Experiments (quick, seed 0) start from the runs of
the unbroken package, so that only the steps that the break reaches run again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@dataclass(frozen=True)
class Mutation:
    """A break: `old` becomes `new` in `file`. `seen_by` names experiments and test files that must turn red; `unseen`
    says why nothing can see it."""

    name: str
    file: str
    old: str
    new: str
    seen_by: tuple[str, ...] = ()
    unseen: str = ""

    @property
    def experiments(self) -> list[str]:
        return [name for name in self.seen_by if not name.startswith("tests/")]

    @property
    def tests(self) -> list[str]:
        return [name for name in self.seen_by if name.startswith("tests/")]


def mutations(names: list[str]) -> list[Mutation]:
    """The breaks of these files, or of all."""
    files = [HERE / f"{name}.toml" for name in names] or sorted(HERE.glob("*.toml"))
    return [
        Mutation(**{**given, "seen_by": tuple(given.get("seen_by", ()))})
        for file in files
        for given in tomllib.loads(file.read_text(encoding="utf-8"))["mutation"]
    ]


def broken(text: str, mutation: Mutation) -> str:
    """The text of the file with the break."""
    found = text.count(mutation.old)
    if found != 1:
        raise ValueError(f"{mutation.name}: `old` occurs {found} times in {mutation.file}, not once")
    return text.replace(mutation.old, mutation.new)


def run(ids: list[str], runs: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """`dynascope run IDS --preset quick` with the package of this folder."""
    command = [sys.executable, "-m", "dynascope.cli", "run", *ids, "--preset", "quick", "--runs", str(runs)]
    environment = {**os.environ, "PYTHONPATH": str(source), "MPLBACKEND": "agg"}
    return subprocess.run(command, env=environment, text=True, capture_output=True, check=False)


def see(mutation: Mutation, base: Path) -> str:
    """What turned red, in a few words; empty if nothing did."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(ROOT / "pyproject.toml", copy / "pyproject.toml")
        path = copy / mutation.file
        path.write_text(broken(path.read_text(encoding="utf-8"), mutation), encoding="utf-8")
        for id in mutation.experiments:
            if (base / id).exists():
                shutil.copytree(base / id, copy / "runs" / id)
            done = run([id], copy / "runs", copy / "src")
            if done.returncode:
                lines = [line for line in done.stdout.splitlines() if line.startswith("differs")]
                return lines[0] if lines else f"{id}: {done.stderr.strip().splitlines()[-1]}"
        if mutation.tests:
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutation.tests]
            environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
            done = subprocess.run(command, cwd=copy, env=environment, text=True, capture_output=True, check=False)
            if done.returncode == 1:
                return next(line for line in done.stdout.splitlines() if line.startswith("FAILED"))
    return ""


def main(names: list[str]) -> int:
    listed = mutations(names)
    ids = sorted({id for mutation in listed for id in mutation.experiments})
    unseen = 0
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        done = run(ids, base, ROOT / "src") if ids else None
        if done and done.returncode:
            print(done.stdout[-2000:], done.stderr, "the unbroken package does not pass", sep="\n")
            return 1
        for number, mutation in enumerate(listed, 1):
            began = time.monotonic()
            seen = "" if mutation.unseen else see(mutation, base)
            word = "seen" if seen else "known to be unseen" if mutation.unseen else "UNSEEN"
            unseen += word == "UNSEEN"
            note = seen or mutation.unseen
            print(
                f"[{number}/{len(listed)}] {word}: {mutation.name} ({time.monotonic() - began:.0f} s) {note}",
                flush=True,
            )
    print(f"{len(listed)} breaks, {unseen} unseen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
