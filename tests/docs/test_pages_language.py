"""The pages read as a native speaker in the field would write them: some turns of phrase do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = ("reference.md", "ledger.md")
"""Pages that a script writes from docstrings, claims and statements."""
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md") if (ROOT / name).exists()),
    *(page for page in sorted(DOCS.glob("*.md")) if page.name not in GENERATED),
    *sorted((DOCS / "tutorials").glob("*.py")),
]
HIDDEN = re.compile(
    r"^```.*?^```$|<!-- (?:results|failures|errata|references|audit|number|cost)\b.*?<!-- end -->|<!--.*?-->"
    r"|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]*`|(?<=\])\([^)\s]*\)",
    re.DOTALL | re.MULTILINE,
)
"""Code, formulas, addresses, and text that is filled in."""
START = r"(?:^|(?<=[.!?:] )|(?<=[.!?][*)] )|(?<=\| )|(?<=^- )|(?<=\*\* )|(?<=\.\* ))"
"""Where a sentence, an item or a cell begins."""
PHRASES = {
    "where, for if or when": (
        rf"{START}Where (?![^.\n]*\?)|[,;] where (?:it|there|they|that|one|no|none|this)\b"
        r"|\bonly where\b|\bexcept where\b|\bwhere (?:it fits|there (?:is|are) (?:one|none|any|no)\b|they are at hand)"
    ),
    "a sentence that begins with a noun clause, What ...": rf"{START}What (?![^.\n|]*\?)",
    "a fronted genitive, Of a ...": rf"{START}Of (?:an?|the|each|one|its?|those|these|this|all|that|what|long)\b",
    "words of our own": (
        r"\bunasked\b|without being asked|\banew\b|begins? again at|\bgo(?:es)? on where\b|\bof the day\b|\bof today\b"
        r"|\bcarr(?:y|ies|ied|ying) out\b|\bmiss(?:es)? its problem\b|\bby the wire\b|\bas (?:much|many) as they are\b"
        r"|\btold in one line\b|\bnot told apart\b|\bin the place of\b|\bwhat is there\b|\bthat are there\b"
        r"|\bto be had\b|\bat hand\b|\bon top is of\b|\bone's own\b|\bof (?:yours|its) own day\b|\bpaint(?:s|ed|ing)?\b"
    ),
    "how the work went": (
        r"\bwere looked at\b|\bhas been run on\b|\basked for\s+less\b|\bless\s+since\b|\bsettled after\b|\bwe tried\b"
        r"|\bat first we\b|\bin an earlier version\b|\bused to be\b|\bthat was asked for\b"
    ),
    "British spelling": (
        r"\b\w*(?:optimis|initialis|normalis|generalis|memoris|regularis|vectoris|visualis|summaris|recognis)\w+"
        r"|\b(?:colour|behaviour|neighbour|favour|modelling|labelled|learnt|centre|grey|licence)\w*"
    ),
}
"""Turns of phrase by what is wrong with them."""


def prose(text: str, script: bool) -> str:
    """The text that a reader reads, with each paragraph, item and row of a table on one line; headings are left out."""
    if script:
        cells = re.findall(r"^# %% \[markdown\]\n((?:#.*\n)+)", text, re.MULTILINE)
        text = "\n\n".join(re.sub(r"^# ?", "", cell, flags=re.MULTILINE) for cell in cells)
    text = HIDDEN.sub("_", text)
    text = re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE)
    return re.sub(r"(?<=\S)\n *(?=[^\n|\-*#\d])", " ", text)


def found(text: str, script: bool = False) -> dict[str, list[str]]:
    """What the text has of each kind of phrase, with a few words of context."""
    reading = prose(text, script)
    matches = {
        kind: [reading[match.start() : match.start() + 70] for match in re.finditer(pattern, reading, re.MULTILINE)]
        for kind, pattern in PHRASES.items()
    }
    return {kind: context for kind, context in matches.items() if context}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_free_of_these_phrases(page: Path):
    assert found(page.read_text(encoding="utf-8"), page.suffix == ".py") == {}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Where a model is missing, it is left out.", "where, for if or when"),
        ("It is left out,\nwhere there is none.", "where, for if or when"),
        ("Fine. What is missing stays.", "a sentence that begins with a noun clause, What ..."),
        ("- Of a run that is over nothing comes.", "a fronted genitive, Of a ..."),
        ("It begins\nanew.", "words of our own"),
        ("Seeds were looked at before.", "how the work went"),
        ("The initialisation matters.", "British spelling"),
    ],
)
def test_a_phrase_is_found(text: str, kind: str):
    assert [*found(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "## What happens\n\nThe loss falls.",
        "What does a probe cost? Little.",
        "The place where the sharpness is largest. See `where`.",
        "```sh\nWhere is it.\n```",
        "<!-- failures: edge -->\nWhere it fails, anew.\n<!-- end -->",
    ],
)
def test_headings_questions_places_code_and_generated_tables_are_not(text: str):
    assert found(text) == {}


def test_the_text_of_a_tutorial_is_read_and_its_code_is_not():
    script = "# %% [markdown]\n# Fine. What is\n# there stays.\n\n# %%\n# Where it is, it is.\nx = 1\n"
    assert [*found(script, script=True)] == ["a sentence that begins with a noun clause, What ..."]
