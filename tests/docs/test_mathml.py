"""Formulas in LaTeX become MathML, all of them or none."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mathml import FormulaError, mathml, typeset

DOCS = Path(__file__).parents[2] / "docs"
HIDDEN = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<!\$)\$([^$\n]+)\$(?!\$)", re.DOTALL)
PAGES = sorted(DOCS.glob("*.md"))


def body(latex: str, *, display: bool = False) -> str:
    """The formula without the frame and the annotation."""
    found = re.fullmatch(r"<math.*?><semantics>(.*)<annotation.*</math>", mathml(latex, display=display), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("latex", "wanted"),
    [
        ("x", "<mi>x</mi>"),
        ("12.5", "<mn>12.5</mn>"),
        (r"\lambda_1^2", "<msubsup><mi>λ</mi><mn>1</mn><mn>2</mn></msubsup>"),
        ("x^2_1", "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>"),
        ("f'''", '<mrow><mi>f</mi><mo lspace="0" rspace="0">‴</mo></mrow>'),
        (r"\frac{1}{\sqrt{m}}", "<mfrac><mn>1</mn><msqrt><mi>m</mi></msqrt></mfrac>"),
        (r"a - b", "<mrow><mi>a</mi><mo>−</mo><mi>b</mi></mrow>"),
        (r"\text{two words}", "<mtext>two words</mtext>"),
        (r"\hat x", '<mover accent="true"><mi>x</mi><mo>^</mo></mover>'),
        (r"\mathbb{E}", "<mi>𝔼</mi>"),
        (r"\Sigma", '<mi mathvariant="normal">Σ</mi>'),
    ],
)
def test_a_formula_is_this_element(latex: str, wanted: str):
    assert body(latex) == wanted


def test_the_limits_of_a_sum_are_beside_it_in_a_line_and_above_and_below_it_on_its_own():
    assert body(r"\sum_{i}^n").startswith("<msubsup><mo>∑</mo>")
    assert body(r"\sum_{i}^n", display=True).startswith("<munderover><mo>∑</mo>")


def test_lines_are_aligned():
    table = ElementTree.fromstring(body(r"\begin{aligned} a &= b \\ cd &= e + f \end{aligned}"))
    assert [["".join(cell.itertext()) for cell in row] for row in table] == [["a", "=b"], ["cd", "=e+f"]]


def test_brackets_grow_with_their_content():
    assert body(r"\left( x \right]").count('stretchy="true"') == 2
    assert 'stretchy="false"' in body("(x)")


@pytest.mark.parametrize(
    "latex", [r"\oint", r"\frac{a", "a}", r"\left( a", r"\begin{aligned} a", "a § b", r"\mathbb{Q}"]
)
def test_anything_else_is_an_error_that_shows_the_formula(latex: str):
    with pytest.raises(FormulaError, match=re.escape(latex)):
        mathml(latex)


def test_the_elements_of_the_builder_are_replaced_and_the_rest_stays():
    page = r'<p>If <span class="arithmatex">\(a &lt; b\)</span>:</p><div class="arithmatex">\[c\]</div>'
    text = typeset(page)
    assert text.startswith("<p>If <math><semantics><mrow><mi>a</mi><mo>&lt;</mo><mi>b</mi></mrow>")
    assert '</p><math display="block"><semantics><mi>c</mi>' in text
    assert "arithmatex" not in text


def test_a_formula_that_the_builder_has_not_seen_is_an_error_and_code_is_not():
    assert typeset("<pre>$$ x $$</pre><code>$$</code>") == "<pre>$$ x $$</pre><code>$$</code>"
    with pytest.raises(FormulaError, match="indent it by four"):
        typeset("<p>$$ x $$</p>")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_formula_of_a_page_is_known_and_well_formed(page: Path):
    for block, line in FORMULA.findall(HIDDEN.sub("", page.read_text(encoding="utf-8"))):
        ElementTree.fromstring(mathml(block or line, display=bool(block)))
