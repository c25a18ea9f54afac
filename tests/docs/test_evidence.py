"""Numbers on the pages are those of the stored evidence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import kept_evidence
import make_evidence
from dynascope.lab.netcdf import load, pack
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

DOCS = Path(__file__).parents[2] / "docs"
EVIDENCE = json.loads(make_evidence.EVIDENCE.read_text(encoding="utf-8"))
PAGES = [page for page in make_evidence.pages() if make_evidence.MARKED.search(page.read_text(encoding="utf-8"))]
KEPT = DOCS.parent / "evidence" / "edge.sixteen-neurons" / "full"
PLACES = {kept_evidence.name_of(place): place for place in kept_evidence.places()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_the_evidence_says(page: Path):
    text = page.read_text(encoding="utf-8")
    assert make_evidence.written(text, EVIDENCE) == text, "run `make evidence`"


@pytest.mark.parametrize("system", ["concept", "edge", "linearity", "catapult", "features", "rank", "graphs", "recall"])
def test_the_page_of_a_system_has_the_parts_of_all(system: str):
    text = (DOCS / f"{system}.md").read_text(encoding="utf-8")
    parts = ("What happens", "Run it", "Vary it", "What holds and what does not", "Errata", "References")
    places = [text.find(f"\n## {part}\n") for part in parts]
    assert -1 not in places, dict(zip(parts, places, strict=True))
    assert places == sorted(places)
    for mark in ("results", "failures", "errata", "references"):
        assert f"<!-- {mark}: {system} -->" in text


def test_a_number_comes_from_its_claim():
    evidence = {"claims": {"a.b": [{"id": "c", "measured": {"largest": 0.0625}}, {"id": "d", "measured": 3}]}}
    page = "It is <!-- number: a.b c: largest -->?<!-- end --> and <!-- number: a.b d --><!-- end -->."
    wanted = "It is <!-- number: a.b c: largest -->0.0625<!-- end --> and <!-- number: a.b d -->3<!-- end -->."
    assert make_evidence.written(page, evidence) == wanted


def test_a_number_may_be_of_a_run_with_another_preset():
    claims = [{"id": "c", "measured": {"of": 0.25}}]
    evidence = {"claims": {"a.b": [{"id": "c", "measured": {"of": 1}}]}, "presets": {"a.b@gpu": claims}}
    page = "<!-- number: a.b@gpu c: of --><!-- end -->"
    assert make_evidence.written(page, evidence) == "<!-- number: a.b@gpu c: of -->0.25<!-- end -->"


@pytest.mark.parametrize(("key", "text"), [("smallest", "1"), ("median", "2"), ("largest", "4"), ("range", "1 to 4")])
def test_a_mark_may_ask_for_a_statistic_of_what_was_measured(key: str, text: str):
    evidence = {"claims": {"a.b": [{"id": "c", "measured": {"of": {"each": [2, 1, 4]}}}]}}
    assert make_evidence.number(evidence, f"a.b c: of: each: {key}") == text


def test_claims_stand_as_the_command_prints_them():
    found = {**of_two_sizes()["claims"]["edge.b"][0], "source": "", "seeds": 1}
    lines = make_evidence.claims({"claims": {"edge.b": [found]}}, "edge.b c").splitlines()
    assert [*map(str.split, lines)] == [["```text"], ["✓", "holds", "It", "rises", "2", ">", "1"], ["```"]]


def test_a_cost_names_the_device():
    evidence = {"runs": {"a.b@full": {"device": "gpu (NVIDIA H200)", "seconds": 240.0}}}
    assert make_evidence.cost(evidence, "a.b@full") == "4 min on one H200"


def test_a_run_that_was_interrupted_has_no_cost():
    evidence = {"runs": {"a.b@full": {"device": "gpu (NVIDIA H200)", "seconds": None}}}
    assert make_evidence.cost(evidence, "a.b@full") == "on one H200"


def of_two_sizes() -> dict:
    """An experiment whose main claim holds in quick and fails at full size."""
    claim = {"id": "c", "statement": "It rises", "measured": 2, "expected": "> 1", "verdict": "holds", "known": ""}
    full = {**claim, "measured": 0.5, "verdict": "fails"}
    runs = {"edge.b@full": {"changed": True, "judged": True}}
    return {"claims": {"edge.b": [claim]}, "presets": {"edge.b@full": [full]}, "runs": runs, "audits": []}


def test_results_have_a_column_for_each_size():
    row = make_evidence.results(of_two_sizes(), "edge").splitlines()[-1]
    assert row == "| `edge.b` | It rises | > 1 | 2; 1 of 1 | – | **fails**: 0.5; 0 of 1† | – |"


def test_a_failure_at_any_size_stands_in_the_table():
    row = make_evidence.failures(of_two_sizes(), "edge").splitlines()[-1]
    assert row == "| `edge.b` | It rises | full; holds in quick | 0.5 | Not explained yet. |"


def test_nothing_fails_only_if_nothing_fails_at_any_size():
    evidence = of_two_sizes()
    evidence["presets"]["edge.b@full"] = evidence["claims"]["edge.b"]
    assert make_evidence.failures(evidence, "edge") == make_evidence.NOTHING


def test_what_a_store_lacks_stays(tmp_path: Path):
    assert make_evidence.collect(tmp_path, EVIDENCE) == EVIDENCE


def copied(root: Path) -> Path:
    return Path(shutil.copytree(KEPT, root / KEPT.parent.name / KEPT.name))


def test_what_is_kept_is_judged_by_the_claims_of_today(tmp_path: Path):
    place = copied(tmp_path)
    of_the_day = json.loads((place / "claims.json").read_text(encoding="utf-8"))
    (place / "claims.json").write_text(json.dumps(of_the_day[:1]), encoding="utf-8")
    claims, problem = kept_evidence.claims_of(place)
    assert not problem
    assert len(claims) > 1


def test_what_lacks_a_variable_keeps_its_claims(tmp_path: Path):
    place = copied(tmp_path)
    reduced = load(place / "reduced.nc")
    (place / "reduced.nc").write_bytes(pack(reduced.drop_vars(list(reduced.data_vars))))
    claims, problem = kept_evidence.claims_of(place)
    assert "KeyError" in problem or "AttributeError" in problem
    assert claims == kept_evidence.read_claims(place / "claims.json")


def test_a_failure_of_the_day_gets_the_reason_on_record_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = copied(tmp_path)
    (place / "reduced.nc").unlink()
    rows = json.loads((place / "claims.json").read_text(encoding="utf-8"))
    rows[0]["verdict"] = "fails"
    (place / "claims.json").write_text(json.dumps(rows), encoding="utf-8")
    assert kept_evidence.claims_of(place)[0][0].known == ""
    kind = kept_evidence.registry.load("edge.sixteen-neurons")
    monkeypatch.setattr(kind, "known_failures", {f"full/{rows[0]['id']}": "It is far."})
    claims, problem = kept_evidence.claims_of(place)
    assert problem
    assert [claim.known for claim in claims] == ["It is far."] + [""] * (len(claims) - 1)


def test_a_claim_of_the_day_that_held_and_is_known_to_fail_today_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = copied(tmp_path)
    (place / "reduced.nc").unlink()
    first, *others = kept_evidence.claims_of(place)[0]
    kind = kept_evidence.registry.load("edge.sixteen-neurons")
    monkeypatch.setattr(kind, "known_failures", {f"full/{first.id}": "It is far."})
    assert kept_evidence.claims_of(place)[0] == others


def test_what_was_measured_by_other_code_says_so(tmp_path: Path):
    place = copied(tmp_path)
    manifest = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
    code = kept_evidence.fingerprints(kept_evidence.registry.load("edge.sixteen-neurons"))
    for now in (code, {**code, "reduce": "of another day"}):
        (place / "manifest.json").write_text(json.dumps({**manifest, "code": now}), encoding="utf-8")
        assert kept_evidence.facts_of(place)["changed"] == (now != code)


def test_runs_of_whole_settings_are_kept_and_older_ones_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_evidence, "FOLDER", tmp_path / "evidence")
    store = tmp_path / "runs" / "edge.sixteen-neurons"
    manifest = json.loads((KEPT / "manifest.json").read_text(encoding="utf-8"))
    stored = Path(shutil.copytree(KEPT, store / manifest["digest"]))
    for kind, wanted in (("full, changed", 0), ("full", 1), ("full", 0)):
        (stored / "manifest.json").write_text(json.dumps({**manifest, "kind": kind}), encoding="utf-8")
        assert len(kept_evidence.keep([StoredRun.open(stored)])) == wanted
    assert kept_evidence.places() == [tmp_path / "evidence" / "edge.sixteen-neurons" / "full"]
    assert Store(tmp_path / "runs").runs()[0]


def test_the_folder_stays_small():
    sizes = [path.stat().st_size for path in kept_evidence.FOLDER.rglob("*") if path.is_file()]
    assert sum(sizes) < 20_000_000
    assert max(sizes) <= kept_evidence.LARGEST


def test_every_run_that_is_kept_is_in_the_evidence():
    assert EVIDENCE["presets"].keys() == EVIDENCE["runs"].keys() == PLACES.keys(), "run `make evidence`"


@pytest.mark.long
@pytest.mark.parametrize("name", PLACES)
def test_the_verdicts_on_record_are_those_of_the_claims_of_today(name: str):
    claims, _ = kept_evidence.claims_of(PLACES[name])
    on_record = {claim["id"]: claim["verdict"] for claim in EVIDENCE["presets"][name]}
    assert on_record == {claim.id: claim.verdict for claim in claims}, "run `make evidence`"
