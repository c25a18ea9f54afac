"""The audits that are kept in `evidence.json`: for each set of seeds, at how many of them each claim holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

Audit = dict[str, Any]
KEYS = ("id", "claim", "main", "holds", "agrees", "of", "failing_seeds", "known")


def with_audit(kept: Sequence[Audit], given: Audit) -> list[Audit]:
    """The audits with one more. Of the same seeds, its experiments replace those that were kept."""
    rows = [{key: row[key] for key in KEYS} for row in given["rows"]]
    same = [row for audit in kept if audit["seeds"] == list(given["seeds"]) for row in audit["rows"]]
    new = {row["id"] for row in rows}
    rows = sorted([row for row in same if row["id"] not in new] + rows, key=lambda row: row["id"])
    others = [audit for audit in kept if audit["seeds"] != list(given["seeds"])]
    return sorted([*others, {"seeds": list(given["seeds"]), "rows": rows}], key=lambda audit: audit["seeds"])


def shares(kept: Iterable[Audit]) -> dict[tuple[str, str], str]:
    """For each experiment and claim, at how many seeds of all audits it holds."""
    held, of = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in (row for audit in kept for row in audit["rows"]):
        held[row["id"], row["claim"]] += row["holds"]
        of[row["id"], row["claim"]] += row["of"]
    return {name: f"{held[name]} of {of[name]}" for name in of}


def table(kept: Sequence[Audit]) -> list[list[str]]:
    """The head and a row for each claim that does not hold at every seed, with a column for each audit."""
    found: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for number, audit in enumerate(kept):
        for row in audit["rows"]:
            found.setdefault((row["id"], row["claim"]), {})[number] = row
    lines = [["experiment", "claim", *(seeds(audit) for audit in kept), "on record"]]
    for (id, claim), rows in sorted(found.items(), key=lambda item: item[0][0]):
        if all(row["holds"] == row["of"] for row in rows.values()):
            continue
        last = next(reversed(rows.values()))
        cells = [_cell(rows.get(number)) for number in range(len(kept))]
        lines.append([f"`{id}`", f"{claim} (main)" if last["main"] else claim, *cells, _record(last)])
    return lines


def sentence(audit: Audit) -> str:
    """How many verdicts of an audit are those on record."""
    rows = audit["rows"]
    pairs, agree = sum(row["of"] for row in rows), sum(row["agrees"] for row in rows)
    main = [row for row in rows if row["main"]]
    always = sum(row["agrees"] == row["of"] for row in main)
    experiments = len({row["id"] for row in rows})
    return (
        f"{seeds(audit).capitalize()}, quick presets of {experiments} experiments: {len(rows)} claims, {pairs:,} "
        f"verdicts, {agree / pairs:.2%} of them as on record; {always} of {len(main)} main claims at every seed."
    )


def seeds(audit: Audit) -> str:
    """The seeds of an audit in words."""
    return f"seeds {audit['seeds'][0]} to {audit['seeds'][-1]}"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    if row["holds"] in (0, row["of"]):
        return f"{row['holds']} of {row['of']}"
    return f"{row['holds']} of {row['of']} (not at {', '.join(map(str, row['failing_seeds']))})"


def _record(row: dict[str, Any]) -> str:
    return "fails" if row["known"] else "holds"
