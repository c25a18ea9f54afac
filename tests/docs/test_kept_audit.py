"""Audits are kept for each set of seeds, and shown side by side."""

from __future__ import annotations

from typing import Any

import kept_audit


def row(id: str, claim: str, failing: tuple[int, ...] = (), of: int = 2, **more: Any) -> dict[str, Any]:
    counts = {"holds": of - len(failing), "agrees": of - len(failing), "of": of, "failing_seeds": list(failing)}
    return {"id": id, "claim": claim, "main": False, "known": "", **counts, **more}


FIRST = {"seeds": [0, 1], "rows": [row("a.b", "rises", main=True), row("a.c", "falls", (1,))]}


def test_an_audit_of_the_same_seeds_replaces_its_experiments_only():
    given = {"seeds": [0, 1], "agreement": 1.0, "rows": [row("a.c", "falls", statement="It falls"), row("a.d", "new")]}
    (kept,) = kept_audit.with_audit([FIRST], given)
    assert kept == {"seeds": [0, 1], "rows": [FIRST["rows"][0], row("a.c", "falls"), row("a.d", "new")]}


def test_an_audit_of_other_seeds_stands_beside_it():
    other = {"seeds": [2, 3], "rows": [row("a.b", "rises")]}
    assert kept_audit.with_audit([other], FIRST) == [FIRST, other]


def test_a_claim_that_fails_at_a_seed_has_a_cell_for_each_audit():
    other = {"seeds": [2, 3], "rows": [row("a.b", "rises", (2,), main=True)]}
    head, *rows = kept_audit.table([FIRST, other])
    assert head == ["experiment", "claim", "seeds 0 to 1", "seeds 2 to 3", "on record"]
    assert rows == [
        ["`a.b`", "rises (main)", "2 of 2", "1 of 2 (not at 2)", "holds"],
        ["`a.c`", "falls", "1 of 2 (not at 1)", "–", "holds"],
    ]


def test_seeds_of_all_audits_count_together():
    other = {"seeds": [2, 3], "rows": [row("a.b", "rises", (2,))]}
    assert kept_audit.shares([FIRST, other]) == {("a.b", "rises"): "3 of 4", ("a.c", "falls"): "1 of 2"}


def test_a_sentence_counts_verdicts_and_main_claims():
    assert kept_audit.sentence(FIRST) == (
        "Seeds 0 to 1, quick presets of 2 experiments: 2 claims, 4 verdicts, 75.00% of them as on record; "
        "1 of 1 main claims at every seed."
    )
