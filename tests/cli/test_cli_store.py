"""The commands on what is stored: `runs`, `where`, `compare`, `rm`, `gc` and `report`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dynascope import cli
from dynascope.lab import registry
from dynascope.lab.errors import LabError
from dynascope.lab.fields import build
from dynascope.lab.run import run
from dynascope.lab.store import Store

TOY = str(Path(__file__).parent.parent / "lab" / "toy.py")
WALK = f"{TOY}::toy.walk"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    walk, store = registry.load(WALK), Store(tmp_path_factory.mktemp("made"))
    for steps in (5, 6):
        run(build(walk, {"steps": steps}), store=store, draw=steps == 5)
    with pytest.raises(LabError):
        run(build(walk, {"crash_in": "judge"}), store=store)
    return store.root


@pytest.fixture
def dynascope(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command in this process, beside two runs and one that crashed; status, output, lines for the person."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path / "runs")

    def call(*words: str) -> tuple[int, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["dynascope", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, errors = capsys.readouterr()
        return int(ended.value.code or 0), out, errors.splitlines()

    return call


def digests() -> list[str]:
    """Of the complete runs, the latest first."""
    return [found.digest for found in reversed(Store().runs()[0])]


def test_runs_lists_what_is_there(dynascope, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    status, out, lines = dynascope("runs")
    assert (status, lines) == (0, [])
    second, first = digests()
    head, *rows = out.splitlines()
    names = ("experiment", "digest", "preset", "seed", "settings that differ", "verdicts", "age", "size")
    assert " ".join(head.split()) == " ".join(names)
    assert len(rows) == 3
    assert rows[0].startswith("toy.walk")
    told = {row.removeprefix("toy.walk").split()[0]: row for row in rows}
    assert "steps=6" in told[second[:8]]
    assert "steps=5" in told[first[:8]]
    assert "2 ✓" in told[first[:8]]
    assert "drift" not in out
    assert "crashed: RuntimeError: told to crash in judge" in out


def test_runs_prints_json_alone(dynascope):
    (Store().root / "toy.walk" / digests()[0] / "config.json").unlink()
    status, out, lines = dynascope("runs", "toy.*", "--json")
    said = {row["digest"]: row for row in json.loads(out)}
    assert status == 0
    assert [row["state"] for row in said.values()].count("damaged") == 1
    assert len(lines) == 1
    assert lines[0].startswith("dynascope: damaged: runs/toy.walk/")
    assert dynascope("runs", "edge.*") == (0, "", ["dynascope: no runs of edge.* are stored in runs"])


def test_runs_imports_nothing_heavy(dynascope, tmp_path: Path):
    code = """if True:
        import sys
        from dynascope import cli
        sys.argv = ["dynascope", *sys.argv[1:]]
        try:
            cli.main()
        finally:
            print({"jax", "xarray", "matplotlib", "numpy", "pandas"} & sys.modules.keys())
    """
    for words in (["runs"], ["where", "toy.walk"], ["rm", "toy.walk"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout.splitlines()[-1] == "set()", done.stderr


def test_names_of_runs_are_completed(dynascope, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("_DYNASCOPE_COMPLETE", "complete_bash")
    second, first = digests()
    for command, typed, found in (
        ("where", "toy", "toy.walk"),
        ("rm", first[:5], first),
        ("compare", second[:5], second),
    ):
        monkeypatch.setenv("COMP_WORDS", f"dynascope {command} {typed}")
        monkeypatch.setenv("COMP_CWORD", "2")
        assert dynascope()[1].split() == [found]


def test_where_prints_the_folder_and_nothing_else(dynascope):
    second, first = digests()
    assert dynascope("where", "toy.walk") == (0, f"runs/toy.walk/{second}\n", [])
    assert dynascope("where", first[:5]) == (0, f"runs/toy.walk/{first}\n", [])
    assert dynascope("where", WALK, "--set", "steps=5", "--seed", "0") == (0, f"runs/toy.walk/{first}\n", [])
    status, out, lines = dynascope("where", WALK, "--preset", "quick", "--control", "--seed", "3")
    assert (status, out) == (1, "")
    command = "dynascope run toy.py::toy.walk --preset quick --control --seed 3"
    assert lines == [f"dynascope: runs has no such run of toy.walk: create it with `{command}`"]


def test_compare_prints_what_differs_and_draws(dynascope, tmp_path: Path):
    second, first = digests()
    status, out, lines = dynascope("compare", first[:6], "toy.walk")
    assert (status, lines) == (0, [])
    assert f"A  toy.walk  full  seed 0  runs/toy.walk/{first}" in out
    assert [line.split() for line in out.splitlines() if line.startswith("steps")] == [["steps", "5", "6"]]
    assert out.count("✓ holds") == 4
    assert out.splitlines()[-1] == f"figure: compare-{first[:8]}-{second[:8]}.png"
    assert (tmp_path / f"compare-{first[:8]}-{second[:8]}.png").stat().st_size > 1000
    status, out, _ = dynascope("compare", first, second, "--figure", "a b/[bold]é.svg", "--json")
    said = json.loads(out)
    assert (status, said["fields"], said["figure"]) == (0, {"steps": [5, 6]}, "a b/[bold]é.svg")
    assert (tmp_path / "a b" / "[bold]é.svg").exists()


def test_rm_lists_first_and_removes_when_told(dynascope):
    second, first = digests()
    status, out, lines = dynascope("rm", first[:6])
    assert (status, lines) == (0, [])
    assert out.startswith(f"runs/toy.walk/{first}  just now, ")
    assert "1 folder, " in out.splitlines()[-1]
    assert out.endswith("to remove; nothing is removed yet: repeat the command with --yes\n")
    assert digests() == [second, first]
    status, out, _ = dynascope("rm", first[:6], "--yes")
    assert status == 0
    assert out.splitlines()[-1].startswith("removed 1 folder, ")
    assert digests() == [second]


def test_gc_removes_what_crashed(dynascope, tmp_path: Path):
    status, out, _ = dynascope("gc", "--failed", "--older-than", "1h")
    assert (status, out) == (0, "nothing to remove\n")
    status, out, _ = dynascope("gc", "--failed", "--yes")
    assert status == 0
    assert "crashed, just now, " in out
    assert not list(tmp_path.glob("runs/*/*.unfinished"))
    assert len(digests()) == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["runs", "toy.wlak"], "no experiment 'toy.wlak'; did you mean 'toy.walk'?"),
        (["where", "toy.wlak"], "no experiment 'toy.wlak'; did you mean 'toy.walk'?"),
        (["where", "toy"], "no experiment 'toy': it is a system, whose experiments are 'toy.*'"),
        (["where"], "Missing argument"),
        (["where", WALK, "--set", "stesp=3"], "toy.walk has no field 'stesp'; did you mean 'steps'?"),
        (["where", WALK, "--preset", "quikc"], "did you mean 'quick'?"),
        (["where", WALK, "--seed", "-1"], "must be an integer from 0 to 4294967295; got -1"),
        (["compare", "toy.walk"], "Missing argument"),
        (["compare", "toy.walk", "toy.wlak"], "did you mean 'toy.walk'?"),
        (["compare", "toy.walk", "toy.walk", "--figure", "x.exe"], "--figure must be a file that ends in .png, .svg"),
        (["rm"], "Missing argument"),
        (["rm", "toy.wlak", "--yes"], "did you mean 'toy.walk'?"),
        (["rm", "runs/toy.walk", "--yes"], "runs/toy.walk is not a run of the store runs"),
        (["rm", "..", "--yes"], "no experiment '..'"),
        (["gc"], "gc needs at least one of --old-code, --failed and --older-than AGE"),
        (["gc", "--yes"], "gc needs at least one of"),
        (["gc", "--older-than", "30"], "--older-than must be a number and h, d or w"),
        (["gc", "toy.wlak", "--failed"], "did you mean 'toy.walk'?"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_two(dynascope, words: list[str], line: str):
    status, out, lines = dynascope(*words)
    assert (status, out, len(lines)) == (2, "", 1), lines
    assert line in lines[0]
    assert len(digests()) == 2


def test_a_report_names_damaged_runs_on_the_terminal(dynascope, tmp_path: Path):
    damaged = Path("runs/toy.walk") / digests()[0] / "measured.nc"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    status, out, lines = dynascope("report")
    assert status == 0
    left_out, *as_stored = lines
    why = f"{damaged} is damaged (its checksum differs): run again with --force to replace the run"
    assert left_out == f"dynascope: left out: {why}"
    assert all("cannot be drawn again: toy.walk is not known here" in line for line in as_stored)
    assert out == f"report: {tmp_path}/report/index.html\n"


@pytest.mark.parametrize("name", ["x" * 200, "with spaces", "größe-測定", "[bold]x[/]", "[red]", "a\\[b"])
def test_paths_are_printed_as_they_are(dynascope, tmp_path: Path, name: str):
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / "runs").rename(tmp_path / name / "runs")
    store = ("--runs", f"{name}/runs")
    status, out, _ = dynascope("report", f"{name}/site", *store)
    assert (status, out) == (0, f"report: {tmp_path}/{name}/site/index.html\n")
    folder = dynascope("where", "toy.walk", *store)[1].rstrip("\n")
    assert folder.startswith(f"{name}/runs/toy.walk/")
    assert dynascope("rm", folder, *store)[1].startswith(f"{folder}  ")
    assert f"  {folder}\n" in dynascope("compare", folder, folder, *store)[1]


def test_data_is_copied_only_when_asked_for(dynascope, tmp_path: Path):
    assert dynascope("report")[0] == 0
    assert not list(tmp_path.glob("report/**/*.nc"))
    assert len(list(tmp_path.glob("report/**/claims.json"))) == 2
    assert not [page for page in tmp_path.glob("report/**/*.html") if ".nc" in page.read_text()]
    assert dynascope("report", "--data")[0] == 0
    assert len(list(tmp_path.glob("report/**/measured.nc"))) == 2
    assert [page for page in tmp_path.glob("report/**/*.html") if 'href="measured.nc"' in page.read_text()]


def test_no_home_and_a_poor_locale_are_no_trouble(dynascope, tmp_path: Path):
    path = Path("runs/toy.walk") / digests()[0] / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "finished": "2999-01-01T00:00:00+00:00"}))
    (tmp_path / "größe").mkdir()
    (tmp_path / "runs").rename(tmp_path / "größe" / "runs")
    plain = {key: value for key, value in os.environ.items() if key not in ("HOME", "LANG", "LC_ALL", "XDG_CACHE_HOME")}
    program = """if True:
        import sys
        from dynascope import cli
        for words in (["runs"], ["where", "toy.walk"], ["compare", "toy.walk", "toy.walk"], ["report"]):
            sys.argv = ["dynascope", *words]
            try:
                cli.main()
            except SystemExit as ended:
                assert ended.code == 0, words
    """
    env = {**plain, "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "DYNASCOPE_RUNS": "größe/runs"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"just now" in done.stdout
