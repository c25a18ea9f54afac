"""Numbers on the pages come from runs. `make evidence` runs this script.

    python docs/make_evidence.py RUNS    take the runs of a store: quick ones at seed 0 and the audit into
                                         `evidence.json` with their cards for the gallery, other whole settings
                                         into `evidence/`
    python docs/make_evidence.py         judge what is in `evidence/` by today's claims, and write the pages
    python docs/make_evidence.py pages   write the pages from the `evidence.json` that is there

What a store lacks stays as it is. The marks on the pages, each closed by `<!-- end -->`:

    <!-- results: edge -->      the main claim of each experiment at every size that was run
    <!-- failures: edge -->     what does not reproduce, at which size, and why
    <!-- errata: edge -->       what is printed and what is right, by kind
    <!-- number: edge.product balance: largest -->   one number of a claim: its `measured`, an entry of that (of an
                                                     entry, ...), or `smallest`, `median`, `largest`, `range` of
                                                     the numbers in it
    <!-- number: concept.diffusion@gpu flip -->      of the run with this preset, or full
    <!-- claims: edge.product flattest, balance -->  these claims as `dynascope run` prints them
    <!-- cost: concept.diffusion@gpu -->             how long a run took, and on which device
    <!-- references: edge -->   the documents, with links
    <!-- audit -->              the claims that do not hold at every seed
"""

from __future__ import annotations

import io
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

import kept_audit
import kept_evidence
import make_gallery
from dynascope.lab import formatting, registry
from dynascope.lab.claims import Claim
from dynascope.lab.experiment import OptionalExperiment
from dynascope.lab.references import REFERENCES
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.terminal import claims_table

HERE = Path(__file__).resolve().parent
EVIDENCE = HERE / "evidence.json"
MARKED = re.compile(
    r"<!-- (results|failures|errata|number|claims|cost|references|audit)(?:: ([^>]*?))? -->(.*?)<!-- end -->", re.DOTALL
)
KINDS = {"error": "false as meant", "gap": "step of a proof", "misprint": "misprint", "program": "published program"}
NOTHING = "Nothing, at the sizes above."
UNEXPLAINED = "Not explained yet."
OF_NUMBERS = {
    "smallest": min,
    "median": statistics.median,
    "largest": max,
    "range": lambda numbers: f"{formatting.number(min(numbers))} to {formatting.number(max(numbers))}",
}
"""What a mark may ask for beside the entries of what was measured."""
LEGEND = """\
The main claim of each experiment at every size that was run, at seed 0: what was measured, and how many of the
experiment's claims do not fail. *Seeds* says at how many seeds of the [audit](claims-and-store.md#the-audit) the main
claim holds in quick. † The code that measures has changed since; ‡ so have the claims: these are the verdicts of that
day. The runs are in [evidence](../evidence/README.md).
"""
TERMINAL = 100
"""The columns of a terminal on a page."""
Evidence = dict[str, Any]


def collect(root: Path, before: Evidence) -> Evidence:
    """The evidence with the quick runs at seed 0 and the audit of a run store."""
    runs, _ = Store(root).runs()
    kept_evidence.keep(runs)
    quick = [run for run in runs if run.preset == "quick" and not run.seed and is_of_today(run)]
    given, audits = root / "audit.json", before["audits"]
    if given.exists():
        audits = kept_audit.with_audit(audits, json.loads(given.read_text(encoding="utf-8")))
    claims = before["claims"] | {run.id: [claim.model_dump(mode="json") for claim in run.claims] for run in quick}
    return {**before, "claims": claims, "audits": audits}


def is_of_today(run: StoredRun) -> bool:
    """Whether the fields of a run are those that its preset has today."""
    known = run.id in {entry.id for entry in registry.entries()}
    return known and run.config == Setting.parse(run.id, preset=run.preset).fields


def judged(before: Evidence) -> Evidence:
    """The evidence with the claims of everything in `evidence/`, and only of experiments that there are."""
    ids = {entry.id for entry in registry.entries()}
    if missing := sorted(ids - before["claims"].keys()):
        raise SystemExit(f"no quick run at seed 0 of {', '.join(missing)}")
    presets, runs = {}, {}
    for place in kept_evidence.places():
        name = kept_evidence.name_of(place)
        claims, problem = kept_evidence.claims_of(place)
        presets[name] = [claim.model_dump(mode="json") for claim in claims]
        runs[name] = {**kept_evidence.facts_of(place), "judged": not problem}
        if problem:
            print(f"{name} keeps its claims: {problem}")
    claims = {id: before["claims"][id] for id in sorted(ids)}
    return {"claims": claims, "presets": presets, "runs": runs, "audits": before["audits"]}


def pages() -> list[Path]:
    """The pages that may hold marks."""
    return [*sorted(HERE.glob("*.md")), HERE.parent / "README.md"]


def written(text: str, evidence: Evidence) -> str:
    """The page with all that is between marks written again."""

    def write(found: re.Match[str]) -> str:
        kind, argument = found[1], found[2] or ""
        bodies = (results, failures, errata, number, claims, cost, references, audit)
        body = next(body for body in bodies if body.__name__ == kind)
        content = body(evidence, argument)
        space = "" if kind in ("number", "cost") else "\n"
        mark = f"{kind}: {argument}" if argument else kind
        return f"<!-- {mark} -->{space}{content}{space}<!-- end -->"

    return MARKED.sub(write, text)


def results(evidence: Evidence, system: str) -> str:
    """A row for each experiment of the system, with its main claim at every size."""
    seeds = kept_audit.shares(evidence["audits"])
    head = ["experiment", "main claim", "expected", "quick", "seeds", "full", "other presets"]
    lines = [LEGEND, _row(head), "|" + "---|" * len(head)]
    for id, claims in _of(evidence, system):
        sizes = {size: _cell(evidence, id, size) for size in _sizes(evidence, id)}
        others = "; ".join(f"`{size}`: {cell}" for size, cell in sizes.items() if size not in ("quick", "full"))
        share = seeds.get((id, claims[0]["id"]), "–")
        expected = formatting.text(claims[0]["expected"])
        full = sizes.get("full") or not_run(id)
        cells = (claims[0]["statement"], expected, sizes["quick"], share, full, others or "–")
        lines.append(_row([f"`{id}`", *cells]))
    return "\n".join(lines)


def not_run(id: str) -> str:
    """Why there is no run at an experiment's defaults: what it would cost, or need."""
    cost = {entry.id: entry.cost for entry in registry.entries()}.get(id, {}).get("full")
    if cost is None:
        return "–"
    if not formatting.needs_gpu(cost) and issubclass(registry.load(id), OptionalExperiment):
        return "not run: it needs a language model"
    return f"not run: {formatting.duration(cost)} on two CPU cores"


def failures(evidence: Evidence, system: str) -> str:
    """A row for each claim that fails at some size."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for id, _ in _of(evidence, system):
        for size in _sizes(evidence, id):
            for claim in _claims(evidence, id, size):
                if claim["verdict"] == "fails":
                    rows.setdefault((id, claim["id"]), {})[size] = claim
    lines = []
    for (id, name), found in rows.items():
        held = [size for size in _sizes(evidence, id) if size not in found and _has(evidence, id, size, name)]
        where = ", ".join(found) + (f"; holds in {', '.join(held)}" if held else "")
        numbers = [formatting.text(claim["measured"]) for claim in found.values()]
        labels = [f"{size}: " if len(found) > 1 else "" for size in found]
        measured = "; ".join(label + number for label, number in zip(labels, numbers, strict=True))
        why = " ".join(dict.fromkeys(claim["known"] for claim in found.values() if claim["known"]))
        lines.append(_row((f"`{id}`", next(iter(found.values()))["statement"], where, measured, why or UNEXPLAINED)))
    head = ["| experiment | claim | fails in | measured | why it fails |", "|---|---|---|---|---|"]
    return "\n".join([*head, *lines]) if lines else NOTHING


def errata(evidence: Evidence, system: str) -> str:
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
        return "None."
    head = ["| kind | printed | what is right | measured | experiment |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(row for _, row in sorted(rows, key=lambda row: row[0]))])


def number(evidence: Evidence, argument: str) -> str:
    """One number of a claim."""
    place, *keys = argument.split(": ")
    name, claim = place.split()
    id, _, size = name.partition("@")
    found = next(each for each in _claims(evidence, id, size or "quick") if each["id"] == claim)["measured"]
    for key in keys:
        if isinstance(found, dict) and key in found:
            found = found[key]
        else:
            values = found.values() if isinstance(found, dict) else found
            found = OF_NUMBERS[key]([value for value in values if isinstance(value, int | float)])
    return formatting.text(found)


def claims(evidence: Evidence, argument: str) -> str:
    """Some claims of an experiment, as the command prints them."""
    name, _, wanted = argument.partition(" ")
    id, _, size = name.partition("@")
    found = {claim["id"]: Claim.model_validate(claim) for claim in _claims(evidence, id, size or "quick")}
    printed = Console(file=io.StringIO(), width=TERMINAL, color_system=None)
    printed.print(claims_table([found[each] for each in wanted.split(", ")]))
    lines = (line.rstrip() for line in printed.file.getvalue().splitlines())  # pyright: ignore[reportAttributeAccessIssue]
    return "\n".join(["```text", *lines, "```"])


def cost(evidence: Evidence, name: str) -> str:
    """How long a run took, if it was not interrupted, and on which device."""
    facts = evidence["runs"][name]
    device = facts["device"]
    where = device[device.index("(") + 1 : -1] if device.startswith("gpu") else "CPU"
    place = f"on one {where.removeprefix('NVIDIA ')}"
    return place if facts["seconds"] is None else f"{formatting.duration(facts['seconds'])} {place}"


def references(_: Evidence, system: str) -> str:
    """The documents of the system's experiments."""
    titles = dict.fromkeys(entry.document for entry in registry.entries(f"{system}.*"))
    lines = []
    for title in titles:
        reference = REFERENCES[title]
        links = ", ".join(f"[{name}]({address})" for name, address in reference.links)
        lines.append(f"- {reference.authors} ({reference.year}), *{title}*. {reference.what}. {links}")
    return "\n".join(lines)


def audit(evidence: Evidence, _: str) -> str:
    """How many verdicts of each audit are on record, and the claims that do not hold at every seed."""
    kept = evidence["audits"]
    if not kept:
        return "No audit is stored yet: `make audit` makes one."
    head, *rows = kept_audit.table(kept)
    lines = [f"- {kept_audit.sentence(each)}" for each in kept]
    return "\n".join([*lines, "", _row(head), "|" + "---|" * len(head), *map(_row, rows)])


def _sizes(evidence: Evidence, id: str) -> list[str]:
    """The settings in which there is a run: quick, full, then the others."""
    names = [name.partition("@")[2] for name in sorted(evidence.get("presets", {})) if name.partition("@")[0] == id]
    return ["quick", *sorted(names, key=lambda name: name != "full")]


def _claims(evidence: Evidence, id: str, size: str) -> list[dict[str, Any]]:
    return evidence["claims"][id] if size == "quick" else evidence["presets"][f"{id}@{size}"]


def _has(evidence: Evidence, id: str, size: str, name: str) -> bool:
    return any(claim["id"] == name for claim in _claims(evidence, id, size))


def _cell(evidence: Evidence, id: str, size: str) -> str:
    """What the main claim measured in a setting, whether it fails, how many claims do not, and how old the run is."""
    claims = _claims(evidence, id, size)
    good = sum(claim["verdict"] != "fails" for claim in claims)
    fails = "**fails**: " if claims[0]["verdict"] == "fails" else ""
    facts = evidence.get("runs", {}).get(f"{id}@{size}") or {"changed": False, "judged": True}
    old = "" if not facts["changed"] else "†" if facts["judged"] else "‡"
    return f"{fails}{main_number(claims[0]['measured'])}; {good} of {len(claims)}{old}"


def main_number(measured: Any) -> str:
    """What decides the verdict, without the numbers beside it."""
    if isinstance(measured, dict) and "share" in measured:
        return formatting.share(measured)
    return formatting.text(measured["measured"] if isinstance(measured, dict) and "measured" in measured else measured)


def _of(evidence: Evidence, system: str) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(id, claims) for id, claims in sorted(evidence["claims"].items()) if id.partition(".")[0] == system]


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def main(arguments: list[str]) -> None:
    evidence = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    if arguments != ["pages"]:
        evidence = judged(collect(Path(arguments[0]), evidence) if arguments else evidence)
        if arguments:
            make_gallery.keep_cards(Path(arguments[0]))
        EVIDENCE.write_text(json.dumps(evidence, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(written(text, evidence), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
