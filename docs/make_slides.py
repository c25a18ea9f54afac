"""Slides from the evidence: `python docs/make_slides.py [ID ...] [--to FILE]`, or `make slides`.

One page of HTML with everything in it: a title, a slide for each experiment with its picture, its main claim and the
number on record, and the state of the ledger. Arrow keys turn the slides; printed, each slide is one page.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

import make_evidence
import make_gallery
from dynascope import ledger
from dynascope.lab import formatting, registry
from dynascope.lab.entry import Entry
from dynascope.lab.errors import UsageError
from dynascope.lab.report.prose import prose
from dynascope.ledger.verdicts import VERDICTS

DOCS = Path(__file__).resolve().parent
FILE = DOCS.parent / "build" / "slides.html"
WORDS = {"holds": "holds", "fails": "does not hold, as is on record", "erratum": "not as printed"}
PAGE = Markup("""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>dynascope</title>
<style>{style}</style>
{slides}
<script>{script}</script></html>
""")
STYLE = """
@page { size: 1280px 720px; margin: 0 }
* { box-sizing: border-box }
html { scroll-snap-type: y mandatory; color: #1c2330; background: #fff; font: 20px/1.4 system-ui, sans-serif }
body { margin: 0 }
section { min-height: 100vh; padding: 3rem 4rem; display: grid; gap: 1rem 3rem; align-items: center;
  grid-template: auto 1fr auto / 1fr 1fr; scroll-snap-align: start; break-after: page }
h1, h2, .words, .below { grid-column: 1 / -1; margin: 0 }
h1 { font-size: 3rem; align-self: end }
h2 { font-size: 1.9rem; line-height: 1.2; text-wrap: balance }
.words { font-size: 1.3rem; align-self: start }
img { width: 100%; max-width: 36rem; max-height: 62vh; object-fit: contain }
p { margin: 0 0 .8rem; font-size: 1.2rem }
.below { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 2rem; font-size: .85rem }
.title { grid-template: none; align-content: center }
table { justify-self: start }
.below, .fails { color: #5a6475 }
.holds { color: #1a7f4b }
.erratum { color: #9a5b00 }
code { font-size: .85em; overflow-wrap: anywhere }
td { padding: .15rem 1rem .15rem 0; font-variant-numeric: tabular-nums }
td + td { text-align: right }
@media (max-width: 46rem) {
  html { scroll-snap-type: none; font-size: 16px }
  section { grid-template: none / 1fr; padding: 1.5rem; min-height: 0; border-bottom: 1px solid #ddd }
}
@media print { section { height: 720px; min-height: 0 } }
"""
SCRIPT = """
addEventListener("keydown", event => {
  const by = {ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1}[event.key]
  if (!by) return
  const slides = [...document.querySelectorAll("section")]
  const at = slides.findIndex(slide => slide.getBoundingClientRect().bottom > 1)
  slides[Math.max(0, Math.min(slides.length - 1, at + by))].scrollIntoView()
  event.preventDefault()
})
"""


def usual() -> list[str]:
    """The experiments whose pictures stand for the systems on the start page."""
    return re.findall(r"\(pictures/cards/([\w.-]+)\.webp\)", (DOCS / "index.md").read_text(encoding="utf-8"))


def slides(entries: Iterable[Entry]) -> Iterator[Markup]:
    """All slides.

    Args:
        entries: The experiments that get one.

    Yields:
        A section of HTML for each slide.
    """
    claims = json.loads((DOCS / "evidence.json").read_text(encoding="utf-8"))["claims"]
    lead = "Watch a network learn, beside what the mathematics predicts."
    parts = [formatting.count(len(claims), "experiment"), formatting.count(sum(map(len, claims.values())), "claim")]
    yield Markup(
        '<section class="title"><h1>dynascope</h1><p class="words">{}</p><div class="below">{}</div></section>'
    ).format(lead, " · ".join(parts))
    for entry in entries:
        yield slide(entry, claims[entry.id][0])
    yield the_ledger()


def slide(entry: Entry, claim: dict[str, Any]) -> Markup:
    """The slide of an experiment: its question, its picture, its main claim."""
    verdict = claim["verdict"]
    known = Markup("<p>{}</p>").format(prose(claim["known"])) if verdict == "fails" and claim.get("known") else ""
    return Markup(
        '<section><h2>{}</h2>{}<div><p>{}</p><p class="{}"><b>{}</b>: {}, expected {}</p>{}</div>'
        '<div class="below"><span>{}</span><code>dynascope run {} --preset quick</code></div></section>'
    ).format(
        prose(entry.title),
        picture(entry),
        prose(claim["statement"]),
        verdict,
        WORDS[verdict],
        make_evidence.main_number(claim["measured"]),
        formatting.text(claim["expected"]),
        known,
        ", ".join(part for part in (entry.place, entry.document) if part),
        entry.id,
    )


def picture(entry: Entry) -> Markup:
    """The kept picture of an experiment, in the page itself; nothing if there is none."""
    path = make_gallery.kept_picture(entry)
    if path is None:
        return Markup("<div></div>")
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return Markup('<img alt="{}" src="data:image/{};base64,{}">').format(entry.title, path.suffix[1:], data)


def the_ledger() -> Markup:
    """The last slide: how many statements of the documents have each verdict."""
    counts = Counter(ledger.verdict(row) for row in ledger.statements())
    rows = [Markup("<tr><td>{}</td><td>{}</td></tr>").format(verdict, counts[verdict]) for verdict in VERDICTS]
    text = "Every statement of the source documents, and what became of it"
    return Markup('<section><h2>{}</h2><table class="words">{}</table><div class="below"></div></section>').format(
        text, Markup("").join(rows)
    )


def main() -> None:
    """Write the slides to a file."""
    parser = argparse.ArgumentParser(description="Slides from the evidence, as one page of HTML.")
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="experiments or patterns, in order (default: one for each system)"
    )
    parser.add_argument("--to", type=Path, default=FILE, metavar="FILE", help="the page (default: build/slides.html)")
    given = parser.parse_args()
    try:
        entries = registry.match(given.ids or usual())
    except UsageError as error:
        parser.error(str(error))
    given.to.parent.mkdir(parents=True, exist_ok=True)
    page = PAGE.format(style=Markup(STYLE), slides=Markup("\n").join(slides(entries)), script=Markup(SCRIPT))
    given.to.write_text(page, encoding="utf-8")
    print(f"slides: {given.to}")


if __name__ == "__main__":
    main()
