"""Numbers on the pages come from stored runs. `make evidence` runs this script.

It reads the quick runs (seed 0) of a run store, and its audit if it has one, into `evidence.json`, and writes what is
between two marks on the pages again. `python docs/make_evidence.py` alone writes the pages from the evidence that is
there. The marks:

    <!-- results: edge -->      the main claim of each experiment, what was measured, and over how many seeds it holds
    <!-- failures: edge -->     what does not reproduce, and why
    <!-- errata: edge -->       what is printed and what is right, by kind
    <!-- number: edge.product balance: largest -->   one number of a claim: its `measured`, or an entry of it
    <!-- number: concept.diffusion@gpu flip -->      of the run with this preset, or full; kept where the
                                                    store has none
    <!-- references: edge -->   the documents, with links
    <!-- audit -->              the claims that do not hold at every seed
    <!-- end -->
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from dynascope.lab import formatting, registry
from dynascope.lab.experiment import OptionalExperiment
from dynascope.lab.references import REFERENCES

HERE = Path(__file__).resolve().parent
EVIDENCE = HERE / "evidence.json"
MARKED = re.compile(
    r"<!-- (results|failures|errata|number|references|audit)(?:: ([^>]*?))? -->(.*?)<!-- end -->", re.DOTALL
)
OF_PRESET = re.compile(r"<!-- number: ([^ >]+)@([^ >]+) ")
KINDS = {"error": "false as meant", "gap": "step of a proof", "misprint": "misprint", "program": "published program"}
NOTHING = "Nothing."


def collect(root: Path) -> dict[str, Any]:
    """The claims of the quick runs at seed 0, and the audit, of a run store."""
    from dynascope.lab.store import Store

    named = {pair for page in pages() for pair in OF_PRESET.findall(page.read_text(encoding="utf-8"))}
    found: dict[str, Any] = {}
    before = json.loads(EVIDENCE.read_text(encoding="utf-8")) if EVIDENCE.exists() else {}
    before, kept = before.get("presets", {}), before.get("claims", {})
    presets = {name: claims for name, claims in before.items() if tuple(name.split("@")) in named}
    runs, _ = Store(root).runs()
    for run in runs:
        if run.seed or "--set" in run.manifest["command"]:
            continue
        if run.preset == "quick":
            found[run.id] = [claim.model_dump(mode="json") for claim in run.claims]
        if (run.id, run.preset or "full") in named:
            presets[f"{run.id}@{run.preset or 'full'}"] = [claim.model_dump(mode="json") for claim in run.claims]
    for id in optional() - found.keys():
        found |= {id: kept[id]} if id in kept else {}
    if missing := [entry.id for entry in registry.entries() if entry.id not in found]:
        raise SystemExit(f"no quick run at seed 0 of {', '.join(missing)} in {root}")
    audit = root / "audit.json"
    nothing = {"rows": [], "seeds": [], "agreement": 1.0}
    given = json.loads(audit.read_text(encoding="utf-8")) if audit.exists() else nothing
    keys = ("id", "claim", "main", "holds", "agrees", "of", "failing_seeds", "known")
    rows = [{key: row[key] for key in keys} for row in given["rows"]]
    shown = {"seeds": given["seeds"], "agreement": given["agreement"], "rows": rows}
    return {"claims": dict(sorted(found.items())), "presets": dict(sorted(presets.items())), "audit": shown}


def optional() -> set[str]:
    """The experiments that need more than the package carries: their evidence is kept where the store has none."""
    found = [(entry.id, registry.load(entry)) for entry in registry.entries()]
    return {id for id, kind in found if issubclass(kind, OptionalExperiment)}


def pages() -> list[Path]:
    """The pages that may hold marks."""
    return [*sorted(HERE.glob("*.md")), HERE.parent / "README.md"]


def written(text: str, evidence: dict[str, Any]) -> str:
    """The page with all that is between marks written again."""

    def write(found: re.Match[str]) -> str:
        kind, argument = found[1], found[2] or ""
        bodies = (results, failures, errata, number, references, audit)
        body = next(body for body in bodies if body.__name__ == kind)
        content = body(evidence, argument)
        space = "" if kind == "number" else "\n"
        mark = f"{kind}: {argument}" if argument else kind
        return f"<!-- {mark} -->{space}{content}{space}<!-- end -->"

    return MARKED.sub(write, text)


def results(evidence: dict[str, Any], system: str) -> str:
    """A row for each experiment of the system."""
    seeds = {(row["id"], row["claim"]): row for row in evidence["audit"]["rows"]}
    lines = ["| experiment | main claim | measured | expected | seeds | claims |", "|---|---|---|---|---|---|"]
    for id, claims in _of(evidence, system):
        main = claims[0]
        row = seeds.get((id, main["id"]))
        good = sum(claim["verdict"] != "fails" for claim in claims)
        cells = (
            f"`{id}`",
            main["statement"],
            _main_number(main["measured"]),
            formatting.text(main["expected"]),
            f"{row['holds']} of {row['of']}" if row else "–",
            f"{good} of {len(claims)}",
        )
        lines.append(_row(cells))
    return "\n".join(lines)


def failures(evidence: dict[str, Any], system: str) -> str:
    """A row for each claim that is known to fail."""
    lines = []
    for id, claims in _of(evidence, system):
        for claim in claims:
            if claim["known"]:
                cells = (f"`{id}`", claim["statement"], formatting.text(claim["measured"]), claim["known"])
                lines.append(_row(cells))
    head = ["| experiment | claim | measured | why it fails |", "|---|---|---|---|"]
    return "\n".join([*head, *lines]) if lines else NOTHING


def errata(evidence: dict[str, Any], system: str) -> str:
    """A row for each erratum, errors first."""
    rows = []
    for id, claims in _of(evidence, system):
        for claim in claims:
            if claim["verdict"] == "erratum":
                printed = f"{claim['source']}: “{claim['printed']}”"
                cells = (
                    KINDS[claim["kind"]],
                    printed,
                    claim["statement"],
                    formatting.text(claim["measured"]),
                    f"`{id}`",
                )
                rows.append(([*KINDS].index(claim["kind"]), _row(cells)))
    if not rows:
        return NOTHING
    head = ["| kind | printed | what is right | measured | experiment |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(row for _, row in sorted(rows, key=lambda row: row[0]))])


def number(evidence: dict[str, Any], argument: str) -> str:
    """One number of a claim."""
    place, _, key = argument.partition(": ")
    id, name = place.split()
    claims = evidence["presets" if "@" in id else "claims"][id]
    claim = next(claim for claim in claims if claim["id"] == name)
    measured = claim["measured"]
    return formatting.text(measured[key] if key else measured)


def references(_: dict[str, Any], system: str) -> str:
    """The documents of the system's experiments."""
    titles = dict.fromkeys(entry.document for entry in registry.entries(f"{system}.*"))
    lines = []
    for title in titles:
        reference = REFERENCES[title]
        links = ", ".join(f"[{name}]({address})" for name, address in reference.links)
        lines.append(f"- {reference.authors} ({reference.year}), *{title}*. {reference.what}. {links}")
    return "\n".join(lines)


def audit(evidence: dict[str, Any], _: str) -> str:
    """The claims that do not hold at every seed."""
    found = evidence["audit"]
    if not found["rows"]:
        return "No audit is stored yet: `make audit` makes one."
    lines = ["| experiment | claim | holds at | fails at seeds | on record |", "|---|---|---|---|---|"]
    for row in found["rows"]:
        if row["holds"] < row["of"]:
            failing = ", ".join(map(str, row["failing_seeds"]))
            name = f"{row['claim']} (main)" if row["main"] else row["claim"]
            record = "fails" if row["known"] else "holds"
            lines.append(_row((f"`{row['id']}`", name, f"{row['holds']} of {row['of']}", failing, record)))
    claims, pairs = len(found["rows"]), sum(row["of"] for row in found["rows"])
    main = [row for row in found["rows"] if row["main"]]
    always = sum(row["agrees"] == row["of"] for row in main)
    head = (
        f"Seeds {found['seeds'][0]} to {found['seeds'][-1]}, quick presets: {claims} claims, {pairs:,} verdicts, "
        f"{found['agreement']:.2%} of them as on record; {always} of {len(main)} main claims at every seed.\n"
    )
    return "\n".join([head, *lines])


def _main_number(measured: Any) -> str:
    """What decides the verdict, without the numbers beside it."""
    if isinstance(measured, dict) and "share" in measured:
        return formatting.share(measured)
    return formatting.text(measured["measured"] if isinstance(measured, dict) and "measured" in measured else measured)


def _of(evidence: dict[str, Any], system: str) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(id, claims) for id, claims in sorted(evidence["claims"].items()) if id.partition(".")[0] == system]


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def main(arguments: list[str]) -> None:
    if arguments:
        evidence = collect(Path(arguments[0]))
        EVIDENCE.write_text(json.dumps(evidence, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    evidence = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(written(text, evidence), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
