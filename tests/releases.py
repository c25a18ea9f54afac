"""Install the wheel and the source archive in clean environments, with the oldest and the newest packages that they
allow, and run what the README promises first.

    python tests/releases.py 3.11 3.14

uv makes the environments. The oldest packages are those at the lower bounds of pyproject.toml, or the first after them
that have a wheel for that Python; what they depend on in turn is the newest that fits. A Python is a version that uv
finds or fetches, or the path of an interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
WHEEL, SOURCE = "*.whl", "*.tar.gz"
VARIANTS = {"oldest": ("lowest-direct", WHEEL), "newest": ("highest", WHEEL), "newest, source": ("highest", SOURCE)}
SHOWN = ("jax", "equinox", "optax", "diffrax", "numpy", "scipy", "xarray", "pydantic")
"""The packages whose versions are printed."""


class Broken(Exception):
    """A command failed; the message is the end of what it printed."""


def call(*command: str | Path, folder: Path, errors: bool = False) -> str:
    """Run a command in a folder, without the repository's environment.

    Args:
        *command: The program and its arguments.
        folder: The folder in which it runs.
        errors: Whether to return also what it prints as errors and warnings.

    Returns:
        What it prints.

    Raises:
        Broken: If it fails.
    """
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=folder, env=variables | {"MPLBACKEND": "agg"}, capture_output=True, text=True)
    if done.returncode:
        raise Broken((done.stdout + done.stderr)[-2000:])
    return done.stdout + done.stderr if errors else done.stdout


def example() -> str:
    """The first Python example of the README, about the library."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code, "the README has no example"
    return code[1]


def requirements(wheel: Path) -> list[str]:
    """What a wheel requires without its extras. uv takes the lower bounds only of what it is given by name."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    rows = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    return [row for row in rows if "extra ==" not in row]


def check(python: str, resolution: str, package: Path) -> Iterator[str]:
    """Install a package into a new environment and use it there.

    Args:
        python: A version, or the path of an interpreter.
        resolution: uv's name for the choice of versions.
        package: A wheel or a source archive.

    Yields:
        What was found, one line each: the versions, the verdict of an experiment, and that the example runs.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bin = folder / "clean" / "bin"
        call(UV, "venv", "--quiet", "--no-config", "--python", python, folder / "clean", folder=folder)
        install = [UV, "pip", "install", "--quiet", "--no-config", "--python", bin / "python"]
        named = ["--only-binary", ":all:", *requirements(package)] if package.suffix == ".whl" else []
        call(*install, "--resolution", resolution, *named, package, folder=folder)
        rows = json.loads(call(UV, "pip", "list", "--format", "json", "--python", bin / "python", folder=folder))
        versions = {row["name"]: row["version"] for row in rows}
        yield "installed: " + ", ".join(f"{name} {versions[name]}" for name in ("dynascope", *SHOWN))
        run = ["run", "concept.signal-order", "--preset", "quick", "--json"]
        (row,) = json.loads(call(bin / "dynascope", *run, folder=folder))
        if row["verdict"] != "holds":
            raise Broken(f"the verdict of concept.signal-order is {row['verdict']}")
        yield f"dynascope run concept.signal-order --preset quick: {row['verdict']}"
        said = call(bin / "dynascope", "report", folder=folder, errors=True)
        if len(said.splitlines()) > 1:
            raise Broken(f"the report has warnings: {said}")
        (folder / "example.py").write_text(example(), encoding="utf-8")
        printed = call(bin / "python", "example.py", folder=folder)
        yield f"the README's example: {printed.strip().splitlines()[-1].strip()}"


def main() -> int:
    """Check each Python with each variant; the exit status is 1 if any of them fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("pythons", nargs="+", help="versions such as 3.12, or paths of interpreters")
    parser.add_argument("--packages", type=Path, default=ROOT / "dist", help="the folder of the built packages")
    parser.add_argument("--only", choices=VARIANTS, action="append", help="these variants (default: all)")
    given = parser.parse_args()
    failed = False
    for python in given.pythons:
        for variant in given.only or VARIANTS:
            resolution, pattern = VARIANTS[variant]
            (package,) = given.packages.glob(f"dynascope-*{pattern[1:]}")
            print(f"Python {python}, {variant}: {package.name}", flush=True)
            try:
                for line in check(python, resolution, package.resolve()):
                    print(f"  {line}", flush=True)
            except Broken as error:
                failed = True
                print(f"  FAILED: {error}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
