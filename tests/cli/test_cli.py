"""The command: what it prints, where, and the status it ends with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dynascope import __version__

TOY = str(Path(__file__).parent.parent / "lab" / "toy.py")
WALK = f"{TOY}::toy.walk"
GRID = f"{Path(TOY).with_name('test_join.py')}::toy.grid"


def test_a_run_prints_its_claims_and_its_folder(dynascope):
    status, out, lines = dynascope("run", WALK, "--preset", "quick")
    assert status == 0
    assert "Does a random walk with drift climb?" in out
    assert "✓ holds  the walk climbs    100 % [51, 100] of 4  share = 1" in out
    assert "runs/toy.walk/" in out
    assert out.splitlines()[-1] == "1 run: 2 claims hold, 0 errata, 0 fail"
    assert lines == ["dynascope: [1/1] toy.walk ..."]
    assert "(stored already)" in dynascope("run", WALK, "--preset", "quick")[1]


def test_a_verdict_that_differs_from_the_record_is_status_one(dynascope):
    status, out, _ = dynascope("run", WALK, "--set", "drift=0.1")
    assert status == 1
    assert "✗ fails  the walk climbs" in out
    *_, line, news = out.splitlines()
    assert line == "1 run: 1 claim holds, 0 errata, 1 fails"
    assert news == "differs from the record toy.walk: climbs"


def test_the_main_claim_of_a_control_fails_as_it_must(dynascope):
    status, out, _ = dynascope("run", WALK, "--control")
    assert status == 0
    assert "✗ fails, as known  the walk climbs" in out
    assert "known failure: This is the" in out
    assert out.splitlines()[-1] == "1 run: 1 claim holds, 0 errata, 1 fails, as on record"
    assert dynascope("run", WALK, "--control", "--strict")[0] == 1


def test_an_audit_counts_over_seeds(dynascope):
    status, out, _ = dynascope("audit", WALK, "--seeds", "3", "--first", "7", "--all")
    assert status == 0
    assert "climbs (main)  100 % [44, 100] of 3" in out
    assert "2 claims at 3 seeds: 100.00% of the verdicts are on record; 1 of 1 main claims agree with it" in out
    status, out, _ = dynascope("audit", TOY, "--seeds", "2", "--preset", "full")
    assert status == 1, "a walk without drift fails, which is on no record"
    assert "toy.still" in out
    assert dynascope("audit", "no.such")[0] == 2


def test_an_audit_of_an_empty_list_is_refused(dynascope):
    assert dynascope("audit", "--") == (2, "", ["dynascope: audit --: give an id after it"])


@pytest.mark.parametrize("command", ["run", "show", "audit"])
def test_a_name_inside_a_file_is_refused_after_an_id(dynascope, command):
    line = "dynascope: '::' follows the name of a file, as in mine.py::concept.one-layer-theory; got "
    assert dynascope(command, "concept.one-layer-theory::x") == (2, "", [f"{line}'concept.one-layer-theory::x'"])


def test_a_place_shows_its_statements_and_its_experiments(dynascope):
    status, out, _ = dynascope("list", "--figure", "Figure 4.3")
    assert status == 0
    assert "catapult.gradient-descent" in out
    assert "concept." not in out
    assert "quadruple" not in dynascope("list", "concept.signal-order", "--figure", "2")[1]
    status, _, (line,) = dynascope("list", "--figure", "Figure 99")
    named = "name a place such as 'Figure 5' or 'Theorem 4.1'"
    assert (status, line) == (2, f"dynascope: no statement and no experiment is on 'Figure 99'; {named}")
    assert dynascope("list", "--figure", "nonsense")[0] == 2


def test_a_statement_comes_with_its_words_its_claims_and_the_size_of_their_evidence(dynascope):
    said = json.loads(dynascope("list", "--figure", "eq. (4.2)", "--json")[1])
    row = next(row for row in said["statements"] if "concept.one-layer-theory/noise-sum" in str(row["claims"]))
    assert row["verdict"] == "holds in a weaker form"
    assert row["printed"]
    claim = next(claim for claim in row["claims"] if claim["role"] == "erratum")
    assert claim["verdict"] == "erratum"
    assert claim["size"] == list(claim["sizes"])[-1]
    assert "concept.one-layer-theory" in [entry["id"] for entry in said["experiments"]]


def test_json_is_alone_on_standard_output(dynascope):
    status, out, _ = dynascope("run", TOY, "--set", "steps=10", "--json", "--seed", "2")
    said = json.loads(out)
    assert status == 1
    assert [run["id"] for run in said] == ["toy.walk", "toy.still"]
    assert [run["verdict"] for run in said] == ["holds", "fails"]
    assert said[0]["claims"][0]["measured"]["share"] == 1.0
    assert said[0]["command"] == "dynascope run toy.py::toy.walk --set steps=10 --seed 2"
    assert Path(said[0]["folder"]).is_dir()


def test_a_file_that_is_not_what_is_asked_for_is_one_line_and_leaves_nothing(dynascope, tmp_path):
    (tmp_path / "letters.txt").write_text("a b\n")
    runs = tmp_path / "kept"
    given = ("run", "graphs.your-own", "--set", f"graph={tmp_path / 'letters.txt'}", "--runs", str(runs))
    status, out, lines = dynascope(*given)
    told = "graph must hold node numbers, which are integers; line 1 of letters.txt has 'a'"
    assert (status, out) == (2, "")
    assert lines == ["dynascope: [1/1] graphs.your-own ...", f"dynascope: graphs.your-own: {told}"]
    assert not list(runs.glob("*/*.unfinished"))


def test_a_crash_among_many_is_one_line_and_the_others_go_on(dynascope):
    status, out, lines = dynascope("run", TOY, "--set", "crash_in=judge")
    assert status == 1
    crashes = [line for line in lines if "told to crash" in line]
    assert [line.split(":")[1].strip() for line in crashes] == ["toy.walk", "toy.still"]
    assert "crash.log" in crashes[0]
    assert not any("Traceback" in line for line in lines)
    assert out.splitlines()[-1].endswith("2 did not finish")
    assert any("Traceback" in line for line in dynascope("run", WALK, "--set", "crash_in=judge", "--debug")[2])


@pytest.mark.slow
def test_several_experiments_run_side_by_side_and_are_shown_in_order(dynascope):
    status, out, lines = dynascope("run", TOY, "--set", "steps=10", "--jobs", "2")
    assert status == 1
    assert out.index("toy.walk") < out.index("toy.still")
    assert out.splitlines()[-1] == "differs from the record toy.still: climbs"
    assert not lines
    again = dynascope("run", TOY, "--set", "steps=10", "--jobs", "1")[1]
    assert again.count("(stored already)") == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "toy.wlak"], "no experiment 'toy.wlak'"),
        (["run", f"{TOY}::toy.wlak"], "did you mean 'toy.walk'?"),
        (["run", "nowhere.py"], "no such file: nowhere.py"),
        (
            ["run", WALK, "--preset", "quikc"],
            "toy.walk has no preset 'quikc'; it has quick, full; did you mean 'quick'?",
        ),
        (["run", TOY, "--preset", "quick"], "toy.still has no preset 'quick'; it has full"),
        (["run", WALK, "--set", "drfit=1"], "toy.walk has no field 'drfit'; did you mean 'drift'?"),
        (["run", WALK, "--set", "drift"], "'drift' is not of the form key=value"),
        (["run", WALK, "--set", "drift=fast"], "toy.walk: drift must be a number; got 'fast'"),
        (["run", WALK, "--set", "steps=0"], "toy.walk: steps must be an integer ≥ 1; got 0"),
        (["run", WALK, "--set", "noise=loud"], "toy.walk: noise must be normal or uniform; got 'loud'"),
        (["run", WALK, "--set", "steps=true"], "toy.walk: steps must be an integer ≥ 1; got true"),
        (["run", WALK, "--set", "drift=NaN"], "toy.walk: drift must be a number; got nan, which is not finite"),
        (["run", WALK, "--set", "drift=" + "[" * 9999], "is nested too deeply"),
        (["run", WALK, "--seed", "x"], "'--seed'"),
        (["run", WALK, "--sede", "1"], "No such option"),
        (["run"], "Missing argument"),
        (["rnu"], "No such command"),
        (["show", "nothing.*"], "no experiment 'nothing.*'"),
        (["list", "nothing.*"], "no experiment 'nothing.*'"),
        (["sweep", WALK, "--grid", "drift=0:1"], "a range is start:stop:count"),
        (["sweep", WALK, "--grid", "steps=0,1"], "grid steps must be an integer ≥ 1; got 0"),
        (["sweep", WALK, "--grid", "drift=0,1", "--set", "drift=2"], "drift is given by both --grid and --set"),
        (["sweep", TOY, "--grid", "drift=0,1"], "matches 2 experiments, but one is needed"),
        (["sweep", WALK], "--grid"),
        (["sweep", WALK, "--grid", "drift=0", "--grid", "drift=1"], "--grid drift is given twice: [0.0] and [1.0]"),
        (["sweep", WALK, "--grid", "drift=0:1:9999999"], "count must be from 1 to 1,000,000, start and stop finite"),
        (["sweep", WALK, "--grid", "drift=0", "--seeds", "9999999"], "a sweep must have at most 1,000,000 runs"),
        (["sweep", WALK, "--grid", "steps=1:10:5"], "steps takes integers, and this range has 3.25"),
        (["sweep", WALK, "--grid", "drift=0", "--part", "0/3"], "--part is K/N, with K from 1 to N; got '0/3'"),
        (
            ["sweep", WALK, "--grid", "drift=0:1:1001"],
            "1,001 runs, about 3 min 20 s on 1 process, estimated from the experiment's cost",
        ),
        (["run", WALK, "--set", "drift=0", "--set", "drift=1"], "--set drift is given twice: 0 and 1"),
        (["run", WALK, "--seed", "-1"], "'--seed': must be an integer from 0 to 4294967295; got -1"),
        (["run", WALK, "--seed", "4294967296"], "must be an integer from 0 to 4294967295; got 4294967296"),
        (["run", WALK, "--runs", TOY], "the run store must be a folder; got the file"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_two(dynascope, tmp_path: Path, words: list[str], line: str):
    status, out, lines = dynascope(*words)
    assert (status, out) == (2, "")
    assert len(lines) == 1, lines
    assert line in lines[0]
    assert not (tmp_path / "runs").exists()


def test_a_damaged_run_is_one_line_and_force_replaces_it(dynascope, tmp_path: Path):
    dynascope("run", WALK)
    (path,) = tmp_path.glob("runs/*/*/measured.nc")
    path.write_bytes(path.read_bytes()[:-100])
    status, _, lines = dynascope("run", WALK)
    assert status == 1
    assert "measured.nc is damaged (its checksum differs): run again with --force" in lines[-1]
    assert dynascope("run", WALK, "--force")[0] == 0
    (tmp_path / "runs" / "toy.walk" / "foreign").mkdir()
    status, _, lines = dynascope("list")
    assert status == 0
    assert lines[-1].startswith("dynascope: skipped: runs/toy.walk/foreign/manifest.json is missing")


def test_show_says_what_can_be_varied(dynascope):
    dynascope("run", WALK)
    status, out, _ = dynascope("show", WALK)
    assert status == 0
    for word in ("It does, unless the drift is zero.", "Figure 1", "how long it walks", "quick: steps=20", "✓ holds"):
        assert word in out


def test_show_as_json(dynascope):
    dynascope("run", WALK)
    status, out, lines = dynascope("show", WALK, "--json")
    assert (status, lines) == (0, [])
    (facts,) = json.loads(out)
    assert (facts["id"], facts["verdict"], facts["control"]) == ("toy.walk", "holds", {"drift": 0.0})
    assert facts["about"].endswith("It does, unless the drift is zero.")
    steps = {"name": "steps", "takes": "integer ≥ 1", "default": 50, "required": False}
    assert {**steps, "description": "how long it walks"} in facts["fields"]
    assert facts["presets"] == {"quick": {"steps": 20}}


def test_a_cost_beyond_a_day_is_one_for_a_gpu(dynascope):
    assert "full 12 days on two CPU cores; full is for a GPU" in dynascope("show", "rank.vision")[1]
    assert " GPU " in dynascope("list", "rank.vision")[1]
    attention = " ".join(dynascope("show", "recall.attention")[1].split())
    assert "full 27 h 46 min on two CPU cores; full 2 min 20 s on one H200" in attention
    assert "2 min 20 s on H200" in dynascope("list", "recall.attention")[1]
    small = " ".join(dynascope("show", "concept.signal-order")[1].split())
    assert "cost quick 8.0 s, full 1 min on two CPU cores preset quick" in small


def test_a_quiet_run_prints_its_last_line_only(dynascope):
    status, out, lines = dynascope("run", WALK, "--quiet")
    assert (status, out, lines) == (0, "1 run: 2 claims hold, 0 errata, 0 fail\n", [])
    status, out, lines = dynascope("run", WALK, "-q", "--json")
    assert (status, lines) == (0, ["1 run: 2 claims hold, 0 errata, 0 fail"])
    assert json.loads(out)[0]["id"] == "toy.walk"
    status, out, lines = dynascope("run", WALK, "-q", "--set", "crash_in=judge")
    assert (status, len(lines)) == (1, 1)
    assert "told to crash" in lines[0]
    assert out == "0 runs: 0 claims hold, 0 errata, 0 fail; 1 did not finish\n"


def test_the_range_of_seeds_is_in_the_help(dynascope):
    assert "an integer from 0 to 4294967295" in " ".join(dynascope("run", "--help")[1].replace("│", " ").split())


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("run concept.signal-o", ["concept.signal-order"]),
        ("run concept.signal-order --preset ", ["quick", "code", "full"]),
        ("run concept.signal-order --preset quick --set sig", ["sigma="]),
        ("sweep concept.signal-order --set learning", ["learning_rate="]),
        (f"show {TOY} ", [""]),
        ("run no.such --preset ", [""]),
    ],
)
def test_words_are_completed(dynascope, monkeypatch: pytest.MonkeyPatch, typed: str, words: list[str]):
    given = ["dynascope", *typed.split(" ")]
    monkeypatch.setenv("_DYNASCOPE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(given))
    monkeypatch.setenv("COMP_CWORD", str(len(given) - 1))
    status, out, lines = dynascope()
    assert (status, lines) == (0, [])
    assert out.split("\n") == words or out.splitlines() == words


def test_a_report_says_where_it_is(dynascope, tmp_path: Path):
    dynascope("run", WALK)
    status, out, _ = dynascope("report")
    assert status == 0
    assert out.endswith("report/index.html\n")
    assert (tmp_path / "report" / "index.html").exists()


def test_an_empty_report_says_so(dynascope, tmp_path: Path):
    status, _, err = dynascope("report", "--runs", str(tmp_path / "nowhere"))
    assert status == 0
    assert err == [f"dynascope: no runs are stored in {tmp_path / 'nowhere'}: the report is empty"]


def test_version_and_help(dynascope):
    assert dynascope("--version") == (0, f"dynascope {__version__}\n", [])
    assert "Usage: dynascope" in dynascope()[1]


@pytest.mark.parametrize(
    "command",
    [["list"], ["list", "--figure", "Figure 5"], ["show", "concept.signal-order"], ["show", "rank.vision", "--json"]],
)
def test_what_only_looks_imports_nothing_heavy(tmp_path: Path, command: list[str]):
    code = f"""if True:
        import sys
        from dynascope import cli
        sys.argv = ["dynascope", *{command}]
        try:
            cli.main()
        finally:
            print({{"jax", "xarray", "matplotlib", "numpy"}} & sys.modules.keys())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path: Path):
    script = f"{sys.executable} -m dynascope list --json | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""


def test_parts_are_joined(dynascope, tmp_path):
    for first in ("0", "2"):
        folder = () if first == "0" else ("--runs", "elsewhere")
        assert dynascope("run", GRID, "--set", "seeds=2", "--set", f"first_seed={first}", *folder)[0] == 0
    status, _, (line,) = dynascope("join", GRID)
    assert (status, line) == (
        2,
        "dynascope: toy.grid: no stored part contains 2 of its trainings: factor 1, seed 2, ...",
    )
    status, out, lines = dynascope("join", GRID, "--from", "elsewhere")
    assert (status, lines) == (0, [])
    assert "(joined from 2 parts)" in " ".join(out.split())
    assert out.splitlines()[-1] == "1 run: 1 claim holds, 0 errata, 0 fail"
    assert json.loads(dynascope("join", GRID, "--json")[1])["id"] == "toy.grid"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((WALK,), "toy.walk cannot be joined from parts: its trainings are one run"),
        ((f"{TOY}::toy.no",), f"no experiment 'toy.no' in {TOY}"),
        ((GRID, "--from", "nowhere"), "--from must be a folder of runs; got nowhere"),
        ((GRID, "--preset", "small"), "toy.grid has no preset 'small'; it has full"),
        ((GRID, "--seed", "-1"), "Invalid value for '--seed': must be an integer from 0 to 4294967295; got -1"),
    ],
)
def test_what_cannot_be_joined_is_one_line(dynascope, words, line):
    status, out, (said,) = dynascope("join", *words)
    assert (status, out) == (2, "")
    assert said.startswith(f"dynascope: {line}")
