"""The documentation site: what it is made of, and, in a long test, that it builds without a warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

import make_gallery
import reference_pages
import site_links
from dynascope.lab import registry
from dynascope.lab.fields import build
from dynascope.lab.run import run
from dynascope.lab.store import Store

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (*reference_pages.listing.ROOMS, "lab")
QUICK = ("curves", "figures", "graphs", "lab", "ledger", "lm")
"""Rooms whose examples take a few seconds together; the others compile."""


def written(room: str) -> list[str]:
    cells = reference_pages.notebooks.cells((reference_pages.EXAMPLES / f"{room}.py").read_text(encoding="utf-8"))
    return [cell.title for cell in cells[1:]]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_one_example(room: str):
    assert sorted(written(room)) == sorted(reference_pages.names(room))


@pytest.mark.parametrize(
    "room", [pytest.param(room, marks=() if room in QUICK else pytest.mark.long) for room in ROOMS]
)
def test_the_examples_of_a_room_run(room: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert len(list(reference_pages.examples(room))) == len(written(room))


def test_every_name_of_the_list_leads_to_its_place():
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    names = re.findall(r"^- `", page, re.MULTILINE)
    links = re.findall(
        r"^- \[`[\w.]+`\]\(reference/([\w-]+\.md)#(dynascope\.[\w.]+)\): ", reference_pages.linked(page), re.M
    )
    assert len(links) == len(names) > 600
    assert {file for file, _ in links} == {name for name in reference_pages.pages({}) if name.endswith(".md")}


def test_the_gallery_without_runs_has_every_experiment_with_its_claim_and_command():
    page, pictures = make_gallery.gallery(None)
    assert pictures == {}
    for entry in registry.entries():
        assert f"<code>dynascope run {entry.id} --preset quick</code>" in page
    assert page.count("<p><span") == page.count("<figure") == len(registry.entries())


def test_the_gallery_without_runs_shows_the_cards_that_are_kept():
    page, _ = make_gallery.gallery(None)
    shown = re.findall(r'<a href="(\w+)\.html"><img src="(pictures/[\w./-]+)"', page)
    kept = {f"pictures/cards/{path.name}" for path in make_gallery.CARDS.iterdir()}
    assert kept <= {picture for _, picture in shown}
    assert all((make_gallery.DOCS / picture).is_file() for _, picture in shown)
    assert all((make_gallery.DOCS / f"{system}.md").is_file() for system, _ in shown)
    assert {system for system, _ in shown} == set(reference_pages.listing.SYSTEMS)


def test_cards_are_of_experiments_and_small():
    sizes = {path.stem: path.stat().st_size for path in make_gallery.CARDS.iterdir()}
    assert sizes.keys() <= {entry.id for entry in registry.entries()}
    assert max(sizes.values()) < 60_000
    assert sum(sizes.values()) < 1_500_000


def test_the_card_of_a_quick_run_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(make_gallery, "CARDS", tmp_path / "cards")
    for seed in (0, 1):
        run(build(registry.load("graphs.pairs"), {}, preset="quick"), preset="quick", seed=seed, store=Store(tmp_path))
    assert make_gallery.keep_cards(tmp_path) == [tmp_path / "cards" / "graphs.pairs.webp"]
    assert (tmp_path / "cards" / "graphs.pairs.webp").read_bytes()[8:12] == b"WEBP"


def test_the_gallery_has_the_figure_and_the_verdict_of_a_stored_run(tmp_path: Path):
    run(build(registry.load("graphs.pairs"), {}, preset="quick"), preset="quick", store=Store(tmp_path))
    page, pictures = make_gallery.gallery(tmp_path)
    assert list(pictures) == ["graphs.pairs.webp", "graphs.pairs.card.webp"]
    assert '<a href="gallery/graphs.pairs.webp"><img src="gallery/graphs.pairs.card.webp"' in page


class TestPages:
    """What becomes of a page on its way to the site; the builder needs the extra `docs`."""

    @pytest.fixture
    def site(self):
        pytest.importorskip("yaml", reason="the extra `docs` builds the site")
        import make_site

        return make_site

    def test_links_to_scripts_lead_to_their_pages(self, site):
        assert site.rewritten("[a](examples/x.py) [b](tutorials/y.py)", "") == "[a](examples/x.md) [b](tutorials/y.md)"

    def test_links_out_of_the_docs_become_text(self, site):
        assert site.rewritten("see [plan.py](../src/plan.py) and [C](../CONTRIBUTING.md)", "") == (
            "see plan.py and [C](contributing.md)"
        )

    def test_the_navigation_leaves_out_pages_that_are_not_there(self, site, tmp_path, monkeypatch):
        monkeypatch.setattr(site, "STAGE", tmp_path)
        (tmp_path / "there.md").touch()
        nav = [{"A": [{"one": "there.md"}, {"two": "gone.md"}]}, {"B": [{"three": "gone.md"}]}]
        assert site.present(nav) == [{"A": [{"one": "there.md"}]}]

    def test_a_page_that_loads_a_file_from_elsewhere_is_refused(self, site, tmp_path):
        (tmp_path / "page.html").write_text('<script src="https://example.org/x.js"></script>')
        with pytest.raises(SystemExit, match=r"page.html loads a file from elsewhere: https://example.org/x.js"):
            site.without_remote_scripts(tmp_path)

    def test_the_script_of_the_search_is_that_of_the_site(self, site, tmp_path):
        page = tmp_path / "folder" / "page.html"
        page.parent.mkdir()
        page.write_text('<script src="https://unpkg.com/iframe-worker/shim"></script>')
        site.without_remote_scripts(tmp_path)
        assert page.read_text() == '<script src="../search-frame.js"></script>'

    def test_formulas_become_mathml(self, site, tmp_path):
        (tmp_path / "page.html").write_text(r'<p><span class="arithmatex">\(a &lt; b\)</span></p>')
        site.with_formulas(tmp_path)
        assert (tmp_path / "page.html").read_text().startswith("<p><math><semantics><mrow><mi>a</mi><mo>&lt;</mo>")

    def test_a_formula_that_is_not_known_ends_the_build(self, site, tmp_path):
        (tmp_path / "page.html").write_text(r'<span class="arithmatex">\(\oint\)</span>')
        with pytest.raises(SystemExit, match=r"page.html: \\oint is not known: \\oint"):
            site.with_formulas(tmp_path)

    @pytest.mark.long
    def test_a_wide_picture_is_marked(self, site, tmp_path):
        for name, width in (("wide", 30), ("square", 10)):
            Image.new("RGB", (width, 10)).save(tmp_path / f"{name}.png")
        (tmp_path / "a.html").write_text('<p><img alt="" src="wide.png" /></p><p><img alt="" src="square.png" /></p>')
        site.with_wide_pictures(tmp_path)
        assert (tmp_path / "a.html").read_text().count('class="wide"') == 1

    def test_the_site_builds_without_a_warning(self, site, tmp_path, monkeypatch):
        pytest.importorskip("zensical", reason="the extra `docs` builds the site")
        for name, path in {"BUILD": "build", "STAGE": "build/docs", "SITE": "site"}.items():
            monkeypatch.setattr(site, name, tmp_path / path)
        assert site.main(None) == 0
        assert {"index.html", "gallery.html", "search.json"} <= {page.name for page in (tmp_path / "site").iterdir()}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_no_line_of_a_paragraph_begins_with_a_comment(page: Path):
    """Markdown would end the paragraph, or the list, there."""
    lines = page.read_text(encoding="utf-8").split("\n")
    assert [line[:60] for line in lines if re.match(r"\s*<!-- (number|cost):", line)] == []


def test_links_to_papers_have_their_form():
    """arXiv by abstract and number, DOI by doi.org; whether they answer is not tested, as tests use no network."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((https?://[^)\s]*(?:arxiv|doi)[^)\s]*)\)", page.read_text(encoding="utf-8")):
            assert re.fullmatch(r"https://(arxiv\.org/abs/\d{4}\.\d{4,5}|doi\.org/10\.\d{4,9}/\S+)", target), page.name


@pytest.mark.parametrize("system", reference_pages.listing.SYSTEMS)
def test_the_page_of_a_system_links_to_its_papers(system: str):
    references = (ROOT / "docs" / f"{system}.md").read_text(encoding="utf-8").partition("## References")[2]
    assert re.search(r"\]\(https://(arxiv|doi)\.org/", references)


def test_a_link_or_a_picture_that_leads_nowhere_is_found(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#here"></a><a href="b.html#there"></a><img src="pictures/gone.png">'
        '<a href="#top"></a><a href="https://example.org/gone"></a><a href="b%20c.txt?x=1"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p>')
    (tmp_path / "b c.txt").touch()
    assert site_links.missing(tmp_path) == [("a.html", "b.html#there"), ("a.html", "pictures/gone.png")]
