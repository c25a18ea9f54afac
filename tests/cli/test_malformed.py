"""Commands with something wrong in them, drawn at random: each ends at once, in one line and with status 2.

`python tests/cli/test_malformed.py 300` draws as many as are asked for, and says how long the slowest took.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from dynascope import cli

TOY = str(Path(__file__).parents[1] / "lab" / "toy.py")
WALK = f"{TOY}::toy.walk"
IDS = [
    "../../evil", "/etc/passwd", "Toy.Walk", "toy.walk", "", " ", "a b", "concept", "*.nothing", "[", "[!", "[a-",
    "::", "x.py", "x.py::y", f"{TOY}::toy.wlak", "toy\nwalk", "toy\nwalk.py", "é", "\U0001f4a5", "\udcff", "a" * 5000,
    "b" * 5000 + ".py", "-", "%s", "{}", "\\", "$HOME", "`id`", "toy.walk;", "\x1b[31mred", "[bold]x[/]",
    "concept.signal-ordre", ".", "..", "/", "~",
]  # fmt: skip
VALUES = [
    "", "true", "false", "null", "NaN", "-Infinity", "1e999", "-1e999", "nan", "[", "[[", "{", '{"a": 1}', "[" * 5000,
    "[" * 400 + "]" * 400, '{"a":' * 3000, "9" * 5000, "0x10", "--", "=", "==1", "\n", "a\nb", "\udcff", '"\\ud800"',
    "\u202e", "é", "[bold]", "[/]", "'", '"', '"5', "[1, 2", "[true]", "[null]", "[[1]]", "1:2:3", "x" * 5000,
    "\x1b[2J", "%d", "{0}", "1e", "-", "+",
]  # fmt: skip
FIELDS = ["steps", "members", "noise"]
"""None of the values above is one that these fields take."""
GRIDS = [
    "drift", "drift=", "=1:2:3", "drift=0:1", "drift=0:1:0", "drift=0:1:-3", "drift=0:1:x", "drift=a:b:2",
    "drift=0:1:3:lin", "drift=-1:1:3:log", "drift=nan:1:2", "drift=0:inf:2", "drift=1e999:1:2", "drift=0:1:99999999",
    "drfit=1,2", "drift=a,b", "drift=true,false", "drift=[1,2],[3", "drift=" + "[" * 3000, "steps=0,1", "steps=1.5,2",
    "steps=x", "noise=loud", "note\n=1", "drift=NaN", "drift=,", "drift=1,,2", "drift=:::",
]  # fmt: skip
OPTIONS = [
    ["--seed", "-1"], ["--seed", "4294967296"], ["--seed", "1e3"], ["--seed", ""], ["--seed", "٣x"], ["--seed"],
    ["--sede", "1"], ["--jobs", "0"], ["--jobs", "x"], ["-j", "-2"], ["-j"], ["--preset", "quikc"], ["--preset", ""],
    ["--preset", "a\nb"], ["-p"], ["--set"], ["--set", "steps"], ["--set", "=3"], ["--set", ""], ["--set", "stpes=3"],
    ["--set", "a\nb=3"], ["--set", "__class__=1"], ["--set", "id=x.y"], ["--set", "model_config={}"],
    ["--set", "steps=3", "--set", "steps=4"], ["--runs", TOY], ["--runs"], ["--nonsense"], ["-x"], ["--=1"],
    ["--json=1"], ["--force=maybe"], ["--", "--seed"], ["--control", "--preset", "nope"], ["--set", "drift=true"],
    ["--set", "note=5"],
]  # fmt: skip
OTHERS = [
    ["rnu"], ["run"], ["show"], ["sweep", WALK], ["sweep"], ["Run", WALK], ["run run"], ["", "x"], ["--nonsense"],
    ["data", "fetch"], ["data", "fetch", "mnits"], ["data", "fetch", "../../x"], ["data", "fetch", "a\nb"],
    ["data", "nonsense"], ["data", "where", "x"], ["data", "--nonsense"], ["list", "--figure", ""],
    ["list", "--figure", "nonsense"], ["list", "--figure", "Figure 99"], ["list", "--figure"], ["list", "a", "b"],
    ["list", "--figure", "a\nb"], ["report", "--nonsense"], ["report", "a", "b"], ["report", "--runs", TOY],
    ["report", TOY], ["audit", WALK, "--seeds", "0"], ["audit", WALK, "--seeds", "x"],
    ["audit", WALK, "--first", "-1"], ["audit", WALK, "--first", "4294967295", "--seeds", "2"],
    ["audit", WALK, "--jobs", "0"], ["sweep", WALK, "--grid", "drift=1,2", "--executor", "nonsense"],
    ["sweep", WALK, "--grid", "drift=1,2", "--seeds", "0"], ["sweep", WALK, "--grid", "drift=1,2", "--executor", ""],
    ["sweep", WALK, "--grid", "drift=1,2", "--set", "drift=3"], ["join"], ["join", WALK],
    ["join", WALK, "--from", "nowhere"], ["compare"], ["compare", "x"], ["compare", "../x", "y"], ["rm"],
    ["rm", "../.."], ["rm", "/"], ["where"], ["where", "no.such"], ["gc", "--older-than", "x"], ["gc", "--nonsense"],
    ["runs", "["], ["runs", "no.such"], ["runs", "../.."], ["runs", "--nonsense"],
]  # fmt: skip
AFTER = [[], [], ["x"], ["--set", "a"], ["--seed", "-1"], ["--older-than", "-1d"], ["--nonsense"]]
SIGNS = [*map(chr, range(1, 128)), "\u2028", "\U0001f600"]


def drawn(source: random.Random) -> list[str]:
    """A command with one thing wrong in it, or more."""
    command = source.choice(["run", "show", "list", "join", "audit", "sweep"])
    grid = ["--grid", "drift=1,2"] if command == "sweep" else []
    return source.choice(
        [
            lambda: [command, source.choice(IDS), *grid],
            lambda: [
                source.choice(["where", "compare", "rm", "runs", "gc"]),
                source.choice(IDS),
                *source.choice(AFTER),
            ],
            lambda: ["run", WALK, "--set", f"{source.choice(FIELDS)}={source.choice(VALUES)}"],
            lambda: ["sweep", WALK, "--grid", source.choice(GRIDS)],
            lambda: [source.choice(["run", "join"]), WALK, *source.choice(OPTIONS)],
            lambda: source.choice(OTHERS),
            lambda: ["run", "".join(source.choices(SIGNS, k=12)), "--set", "a"],
        ]
    )()


def called(words: list[str]) -> tuple[int, str, list[str]]:
    """The status, standard output and the lines on standard error, without a process of its own. A run that would begin
    is an error."""

    def began(*_: object, **__: object) -> None:
        raise AssertionError(f"a run began: {words!r}")

    out, err = io.StringIO(), io.StringIO()
    with (
        patch("dynascope.lab.steps.Steps.take", began),
        patch.object(sys, "argv", ["dynascope", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue(), err.getvalue().removesuffix("\n").split("\n")
    raise AssertionError(words)


def fault(words: list[str]) -> str:
    """What is wrong with the answer to a malformed command, if something is."""
    status, out, lines = called(words)
    asks = {"list", "show", "runs", "where", "gc", "report", "data"}  # these may find nothing wrong, or nothing at all
    if status == 0 and words[0] in asks:
        return ""
    if status != 2:
        return f"status {status}: {lines}"
    if len(lines) != 1 or not lines[0].startswith("dynascope: ") or any(ord(sign) < 32 for sign in lines[0]):
        return f"not one line: {lines}"
    if any(word in lines[0] for word in ("Traceback", "tagged-union", "constrained", "function-after", "pydantic")):
        return lines[0]
    if len(lines[0]) > 1500:
        return f"a line of {len(lines[0])} characters"
    return f"standard output: {out}" if out else ""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_a_malformed_command_is_one_line(seed: int, tmp_path: Path):
    source = random.Random(seed)
    commands = [drawn(source) for _ in range(20)]
    assert [(words, why) for words in commands if (why := fault(words))] == []
    assert not (tmp_path / "runs").exists(), "nothing is written"


def main(count: int, draw: Callable[[random.Random], list[str]] = drawn) -> None:
    called(["--version"])  # imports what all need
    source, slowest = random.Random(count), (0.0, [""])
    commands = {tuple(words): None for words in [*OTHERS, *(draw(source) for _ in range(20 * count))]}
    for number, words in enumerate(list(commands)[:count]):
        began = time.monotonic()
        try:
            why = fault(list(words))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        slowest = max(slowest, (time.monotonic() - began, list(words)))
        if why:
            print(number, ascii(words)[:150], "->", ascii(why)[:400])
    print(f"{min(count, len(commands))} commands; the slowest took {slowest[0]:.1f} s: {ascii(slowest[1])[:100]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main(int(sys.argv[1]))
