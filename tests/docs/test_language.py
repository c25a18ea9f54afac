"""Docstrings, comments, messages and notes keep clear of phrases that a native reader stumbles over.

"If" is for a condition, "when" for a time, "where" for a place or in a formula. A sentence names its subject: it does
not begin with "What ..." or with "Of ...". The sentences of claims are not looked at: they are part of the evidence.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "dynascope"
BEGINNING = r"(?:^|(?<=[.:;!] ))"
PHRASES = {
    "a sentence that begins with What": BEGINNING + r"What (?![^.?]*\?)",
    "a fronted Of": BEGINNING + r"Of (?!course)",
    "where for if": r"\b[Ww]here (?:it (?:is|can|has)|they (?:are|have)|there (?:is|are)|(?:this|that) is|none|no) "
    r"|(?:[Nn]a[Nn]|None|also|only|even|error|[Rr]aise) where ",
    "words of our own": r"\b(?:unasked|asked for|under way|lately|what was found)\b",
}
ALLOWED = {("where for if", "geometry"): 1}
"""The number of sentences of a room that stay."""


def words(source: str) -> Iterator[str]:
    """Paragraphs of docstrings (each argument by itself), comments, errors, help texts and the notes of experiments."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and is_text(node.value):
            yield from re.split(r"\n\s*\n|\n\s*\*{0,2}\w+(?:, \w+)*: ", node.value.value)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                yield "".join(part.value for part in ast.walk(argument) if is_text(part))
        elif is_shown(node) and is_text(node.value):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def is_shown(node: ast.AST) -> bool:
    """Whether it is the help text of an option, or the notes of an experiment."""
    if isinstance(node, ast.keyword):
        return node.arg == "help"
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "notes"


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@cache
def texts(source: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()) for text in words(source))


def hits(pattern: str, source: str) -> list[str]:
    """The sentences, from the phrase on, in which the pattern occurs."""
    return [text[match.start() :][:80] for text in texts(source) for match in re.finditer(pattern, text)]


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


@pytest.mark.parametrize("name", PHRASES)
def test_a_phrase_that_a_native_reader_stumbles_over_stays_away(name: str):
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        found.setdefault(room(path), []).extend(hits(PHRASES[name], path.read_text(encoding="utf-8")))
    more = {place: those for place, those in found.items() if len(those) > ALLOWED.get((name, place), 0)}
    assert more == {}


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a sentence that begins with What", '"""What it did. What it did next."""', 2),
        ("a sentence that begins with What", '"""Does it know what it did? It does."""', 0),
        ("a sentence that begins with What", '"""A run.\n\nArgs:\n    x: What it did."""', 1),
        ("a fronted Of", "# Of a run that is over only the name is kept\nx = 1", 1),
        ("a fronted Of", '"""The end of a run. Of course."""', 0),
        ("where for if", 'def f():\n    """`value`, where it is a number."""', 1),
        ("where for if", 'raise ValueError(f"got {x}, " "where there is none")', 1),
        ("where for if", '"""A matrix A^k x, where k is the power, and the folder where runs are kept."""', 0),
        ("words of our own", '"""The run under way was asked for."""', 2),
    ],
)
def test_the_check_finds_the_phrase(name: str, text: str, count: int):
    assert len(hits(PHRASES[name], text)) == count
