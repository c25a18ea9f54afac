"""The report, readable everywhere: cards, narrow pictures, notes, the interactive figure, and the address."""

from __future__ import annotations

import base64
import gzip
import re
import shutil
from pathlib import Path

import pytest

from dynascope.lab.report import plotly, write
from dynascope.lab.report.prose import plain, prose
from dynascope.lab.run import run
from dynascope.lab.store import Store

MOST_BYTES = 12_000_000
"""Of the atlas of a hundred experiments, without data."""


@pytest.fixture
def site(tmp_path: Path, walk) -> Path:
    """The report of one run of the toy."""
    store = Store(tmp_path / "runs")
    run(walk(), store=store)
    return write(store, tmp_path / "site", find=lambda _: walk).parent


def page(site: Path) -> str:
    return next(site.glob("toy.walk/*/index.html")).read_text(encoding="utf-8")


def test_the_card_is_one_panel_and_a_phone_gets_the_narrow_picture(site: Path):
    assert "figures/web/walk.card.webp" in (site / "index.html").read_text(encoding="utf-8")
    assert '<source media="screen and (max-width: 46rem)" srcset="figures/web/walk.narrow.webp"' in page(site)
    assert '<img src="figures/web/walk.wide.webp"' in page(site)


def test_a_hundred_such_runs_fit_into_twelve_megabytes(site: Path):
    sizes = {path: path.stat().st_size for path in site.rglob("*") if path.is_file()}
    once = sum(size for path, size in sizes.items() if path.is_relative_to(site / "assets"))
    assert once + 100 * (sum(sizes.values()) - once) < MOST_BYTES


def test_the_originals_are_copied_with_the_data_only(site: Path, tmp_path: Path, walk):
    assert not list(site.rglob("*.svg"))[1:]  # the icon
    whole = write(Store(tmp_path / "runs"), tmp_path / "whole", find=lambda _: walk, data=True).parent
    assert list(whole.rglob("walk.svg"))
    assert list(whole.rglob("walk.png"))


def test_the_interactive_figure_is_there_where_plotly_is(site: Path):
    script = plotly.find_script()
    if script is None:
        pytest.skip("plotly is not installed")
    (figure,) = site.rglob("*.plotly.js")
    assert figure.read_text(encoding="utf-8").startswith('document.currentScript.figure = {"data":')
    kept = re.search(r'packed = "(.+)";', (site / plotly.SCRIPT).read_text(encoding="ascii"))
    assert kept is not None
    assert gzip.decompress(base64.b64decode(kept[1])) == script.read_bytes()
    assert "data-figure=" in page(site)


def test_without_plotly_there_are_stills_only(tmp_path: Path, site: Path, walk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plotly, "find_script", lambda: None)
    bare = write(Store(tmp_path / "runs"), tmp_path / "bare", find=lambda _: walk).parent
    assert "data-figure=" not in page(bare)
    assert not list(bare.rglob("plotly*"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("`quick` takes `a < b`", "<code>quick</code> takes <code>a &lt; b</code>"),
        ("*always* and **never**", "<em>always</em> and <strong>never</strong>"),
        ("the condition PL*: 2 * x * y", "the condition PL*: 2 * x * y"),
        ("λ_max of W_QK, f_lin and x_train_all", "λ<sub>max</sub> of W<sub>QK</sub>, f<sub>lin</sub> and x_train_all"),
        ("(1 - ημ)^t", "(1 - ημ)<sup>t</sup>"),
        (r"assuming $\beta_1 > 0$", "assuming <i>β<sub>1</sub> &gt; 0</i>"),
        ("<script>alert(1)</script> `<b>`", "&lt;script&gt;alert(1)&lt;/script&gt; <code>&lt;b&gt;</code>"),
    ],
)
def test_sentences_are_shown_as_meant(text: str, shown: str):
    assert prose(text) == shown


def test_titles_have_no_marks():
    assert plain("Is `quick` *fast*?") == "Is quick fast?"


def test_the_address_holds_the_filter_and_back_goes_back(site: Path):
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is found")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        errors: list[str] = []
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        tab.goto((site / "index.html").as_uri())
        card = tab.locator("[data-text]")
        tab.get_by_role("searchbox").fill("nothing like it")
        tab.wait_for_url("**words=nothing**", wait_until="commit")
        card.wait_for(state="hidden")
        tab.reload()
        card.wait_for(state="hidden")
        assert tab.get_by_role("searchbox").input_value() == "nothing like it"
        tab.go_back()
        card.wait_for(state="visible")
        tab.locator("[data-text] a").click()
        tab.set_viewport_size({"width": 390, "height": 844})
        tab.wait_for_function("document.querySelector('.figures img')?.currentSrc.endsWith('walk.narrow.webp')")
        if plotly.find_script():
            tab.get_by_role("button", name="Interactive").click()
            tab.wait_for_selector(".moving .main-svg")
            tab.locator("a.sheet").wait_for(state="hidden")
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert tab.evaluate(wide) <= 0, "a wide figure scrolls by itself"
        assert errors == []
        browser.close()
