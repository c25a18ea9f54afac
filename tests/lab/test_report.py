"""The report: what a reader finds on its pages, and what it never does to a folder that is not its own."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from dynascope.lab import formatting, registry
from dynascope.lab.claims import Claim, claim, erratum, share_of
from dynascope.lab.errors import LabError, UsageError
from dynascope.lab.experiment import Experiment, Source
from dynascope.lab.files import checksum
from dynascope.lab.json_text import pretty
from dynascope.lab.report import atlas, write
from dynascope.lab.report.about import find_registered
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun


class Pair(Experiment):
    """Is the <stronger> signal learned first & foremost?"""

    id = "concept.pair"
    source = Source("A document", "Figure 1")
    presets = {"quick": {"samples": 10}, "code": {"rate": 0.5}}
    control = {"signals": ((1.0, 1.0),)}
    cost = {"quick": 1.0, "full": 2.0}
    notes = "First paragraph.\n\nSecond <b>paragraph</b>."

    signals: tuple[tuple[float, float], ...] = ((1.0, 2.0),)
    samples: int = 1000
    rate: float = 0.1

    def measure(self, seed):
        raise NotImplementedError

    def reduce(self, measured, predicted):
        return measured

    def judge(self, reduced):
        return []

    def draw(self, measured, predicted, reduced):
        return {}


HOLDS = claim(
    "order",
    "µ₁ < µ₂ is learned later",
    source="Section 1",
    measured=share_of([True] * 51 + [False] * 49),
    expected="half",
    holds=True,
    seeds=100,
)
FAILS = claim("bump", "A bump", measured=0.1, expected=0.2, holds=False, post_hoc="The bound was 0.3.")
KNOWN = FAILS.model_copy(update={"known": "Too little noise."})
ERRATUM = erratum(
    claim("factor", "The factor is 2", measured={"printed": 1e-5}, expected=None, holds=True),
    kind="misprint",
    printed="the factor is <3>",
    at="eq. (7)",
)


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\xff" * width for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def keep(
    store: Store,
    experiment: Experiment | None = None,
    *,
    preset: str | None = None,
    seed: int = 0,
    minute: int = 0,
    claims: tuple[Claim, ...] = (HOLDS,),
) -> StoredRun:
    """Store a run as the lab does."""
    experiment = experiment or Pair(**Pair.presets.get(preset or "", {}))
    with store.draft(Setting.of(experiment, seed=seed)) as draft:
        draft.clear()
        for name in ("second look", "a_first"):
            draft.write(f"figures/{name}.png", png(16, 10))
            draft.write(f"figures/{name}.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
        draft.write("measured.nc", b"measured")
        draft.write("claims.json", pretty([claim.model_dump() for claim in claims]))
        return draft.finish(
            {
                "preset": preset,
                "command": f"dynascope run concept.pair --seed {seed}",
                "figures": ["second look", "a_first"],
                "claims": {"holds": 1, "fails": 0, "erratum": 0, "main": "holds", "news": []},
                "versions": {"jax": "0.10.2"},
                "device": "cpu",
                "run_seconds": 83.4,
                "compile_seconds": None,
                "started": "2026-01-01T00:00:00+00:00",
                "finished": f"2026-01-01T00:{minute:02}:00+00:00",
            }
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def report(store: Store) -> Path:
    """Write the report and return its folder."""
    return write(store, store.root.parent / "site", find={"concept.pair": Pair}.get).parent


def text(store: Store, run: StoredRun | None = None) -> str:
    """The HTML of the run's page, or of the atlas."""
    site = report(store)
    page = site / run.id / run.digest / "index.html" if run else site / "index.html"
    return page.read_text(encoding="utf-8")


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.images: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "action")]
        if tag == "img":
            self.images.append(dict(attrs))


def pages(site: Path) -> Iterator[tuple[Path, Links]]:
    for page in site.rglob("*.html"):
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        yield page, links


def test_every_link_is_local_and_leads_somewhere(store: Store):
    keep(store, claims=(HOLDS, FAILS, ERRATUM))
    keep(store, preset="quick")
    keep(store, Pair(rate=0.3), seed=3)
    site = report(store)
    checked = 0
    for page, links in pages(site):
        for link in links.found:
            parts = urlsplit(link)
            assert not parts.scheme
            assert not parts.netloc
            assert not parts.path.startswith("/")
            assert not parts.path or (page.parent / unquote(parts.path)).is_file(), link
            checked += 1
    assert checked > 40


def test_the_styles_and_scripts_load_nothing(store: Store):
    for asset in (report(store) / "assets").iterdir():
        content = asset.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not any(word in content for word in ("http:", "https:", "url(", "@import", "fetch("))


def test_every_image_has_its_size_and_an_alternative_text(store: Store):
    keep(store)
    images = [image for _, links in pages(report(store)) for image in links.images]
    assert len(images) == 3
    for image in images:
        assert (image["width"], image["height"]) == ("11", "7"), "a PNG has more pixels per inch than the page"
        assert image["alt"]


def test_the_card_shows_the_first_figure_the_experiment_drew(store: Store):
    keep(store)
    assert "figures/web/second%20look.wide.webp" in text(store)
    assert "a_first" not in text(store)


def test_text_is_escaped(store: Store):
    run = keep(store)
    for html in (text(store), text(store, run)):
        assert "Is the &lt;stronger&gt; signal learned first &amp; foremost?" in html
        assert "<stronger>" not in html
    assert "µ₁ &lt; µ₂" in text(store, run)
    assert "Second &lt;b&gt;paragraph&lt;/b&gt;." in text(store, run)


def test_a_known_failure_says_why_and_is_not_red(store: Store):
    run = keep(store, claims=(HOLDS, KNOWN))
    assert 'class="is-known"' in text(store, run)
    assert "is-news" not in text(store, run)
    assert "Known to fail: Too little noise." in text(store, run)
    assert "1 fails, as on record" in text(store)
    assert "the record</span></li>" not in text(store)
    assert 'data-verdicts="holds fails"' in text(store)
    assert "Known to fail" not in text(store, keep(store, claims=(FAILS,), seed=1))


@pytest.mark.parametrize("claim", [FAILS, KNOWN.model_copy(update={"verdict": "holds"})])
def test_a_verdict_that_differs_from_the_record_is_red(store: Store, claim: Claim):
    run = keep(store, claims=(HOLDS, claim))
    assert 'class="is-news"' in text(store, run)
    assert "1 differs from the record" in text(store)


def test_a_threshold_chosen_after_seeing_results_is_marked(store: Store):
    assert "Chosen after seeing results: The bound was 0.3." in text(store, keep(store, claims=(FAILS,)))
    assert "Chosen after" not in text(store, keep(store, seed=1))


def test_an_erratum_is_marked_with_its_kind_and_the_printed_words(store: Store):
    run = keep(store, claims=(ERRATUM, ERRATUM.model_copy(update={"id": "b", "kind": "error"})))
    page = text(store, run)
    assert 'class="is-erratum"' in page
    assert "<q>the factor is &lt;3&gt;</q>" in page
    assert "eq. (7)" in page
    assert "1 misprint" in text(store)
    assert "1 error" in text(store)
    assert 'data-verdicts="erratum"' in text(store)
    assert "is-known" not in page
    assert "is-news" not in page


def test_the_page_says_what_was_changed_and_how_to_repeat_it(store: Store):
    html = text(store, keep(store, Pair(samples=20_000), seed=3))
    changed = html.split('class="changed"')
    assert len(changed) == 2
    assert "samples" in changed[1]
    assert "full setting: 1000" in changed[1]
    assert "<code>dynascope run concept.pair --seed 3</code>" in html
    assert "1 min 23 s" in html


def test_a_damaged_run_is_named_and_the_others_are_shown(store: Store):
    damaged = keep(store, seed=1)
    (damaged.folder / "measured.nc").write_bytes(b"changed")
    headless = keep(store, seed=2)
    (headless.folder / "manifest.json").write_text("{")
    keep(store)
    html = text(store)
    assert "2 run folders are left out" in html
    assert damaged.digest in html
    assert headless.digest in html
    assert str(store.root) not in html
    assert not (report(store) / damaged.id / damaged.digest).exists()


def test_a_run_whose_names_lead_out_of_the_folder_writes_nothing_there(store: Store, tmp_path: Path):
    """A store may come from somebody else, with checksums that are right."""
    keep(store)
    hostile = keep(store, seed=1)
    name = "../../../../escaped"
    for kind in ("png", "svg"):
        outside = (hostile.folder / "figures" / f"{name}.{kind}").resolve()
        outside.write_bytes(b"anything")
    files = {f"figures/{name}.{kind}": checksum(b"anything") for kind in ("png", "svg")}
    manifest = {**hostile.manifest, "figures": [name], "files": {**hostile.manifest["files"], **files}}
    (hostile.folder / "manifest.json").write_text(pretty(manifest))
    before = set(tmp_path.rglob("*"))
    folder = tmp_path / "a" / "b" / "c" / "site"
    html = write(store, folder, find=lambda _: Pair, data=True).read_text(encoding="utf-8")
    assert "1 run folder is left out" in html
    written = set(tmp_path.rglob("*")) - before
    assert {path for path in written if not path.is_relative_to(folder)} <= set(folder.parents)


def test_a_command_that_is_none_leaves_the_pictures_as_stored(store: Store):
    for seed, command in enumerate(("", "dynascope", 'dynascope run "')):
        stored = keep(store, seed=seed)
        (stored.folder / "manifest.json").write_text(pretty({**stored.manifest, "command": command}))
    assert write(store, store.root.parent / "site", find=lambda _: None).is_file()


def test_a_file_of_experiments_beside_the_runs_is_not_loaded(store: Store):
    trap = store.root / "trap.py"
    trap.parent.mkdir(parents=True, exist_ok=True)
    trap.write_text(f"open({str(store.root / 'sprung')!r}, 'w')\nclass A:\n    id = 'concept.other'\n")
    stored = keep(store)
    command = f"dynascope run {trap}::concept.other"
    (stored.folder / "manifest.json").write_text(pretty({**stored.manifest, "command": command}))
    write(store, store.root.parent / "site", find=find_registered)
    assert not (store.root / "sprung").exists()


def chosen(store: Store) -> str:
    return atlas.gather(store, lambda _: Pair).experiments[0].chosen.folder.split("/")[1]


def test_the_card_prefers_full_then_quick_then_others_and_a_control_last(store: Store):
    control = keep(store, Pair(signals=((1.0, 1.0),)), minute=9)
    assert chosen(store) == control.digest
    varied = keep(store, Pair(rate=0.3), minute=1)
    assert chosen(store) == varied.digest
    code = keep(store, preset="code", minute=2)
    assert chosen(store) == code.digest
    keep(store, Pair(samples=10, rate=0.7), preset="quick", minute=1)
    assert chosen(store) == code.digest
    quick = keep(store, preset="quick", minute=1)
    assert chosen(store) == quick.digest
    full = keep(store, minute=0)
    assert chosen(store) == full.digest
    later = keep(store, seed=1, minute=5)
    assert chosen(store) == later.digest


def test_a_control_is_labeled_and_listed(store: Store):
    run = keep(store, Pair(samples=10, signals=((1.0, 1.0),)), preset="quick")
    full = keep(store)
    assert ">control of quick</a>" in text(store, full)
    assert "A control." in text(store, run)
    assert "A control." not in text(store, full)


def test_a_run_without_its_class_still_has_a_page(store: Store):
    run = keep(store)
    index = write(store, store.root.parent / "site", find=lambda _: None)
    assert "concept.pair" in index.read_text(encoding="utf-8")
    assert (index.parent / run.id / run.digest / "index.html").is_file()


def test_the_long_tail_of_a_sweep_is_counted_not_listed(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(atlas, "MOST_OF_A_KIND", 2)
    full = keep(store)
    for seed in range(5):
        keep(store, Pair(rate=0.3), seed=seed)
    assert "3 more runs are in the store" in text(store, full)
    assert len(list((report(store) / "concept.pair").iterdir())) == 3


def test_an_empty_store_gives_a_page_that_says_so(store: Store):
    assert "No run is stored yet" in text(store)


def test_a_report_is_replaced_whole(store: Store):
    run = keep(store)
    site = report(store)
    (site / "stale.html").write_text("")
    assert report(store) == site
    assert not (site / "stale.html").exists()
    assert (site / run.id / run.digest / "claims.json").is_file()
    assert sorted(path.name for path in site.parent.iterdir()) == ["runs", "site"]


def test_a_report_that_cannot_be_written_leaves_the_old_one(store: Store, monkeypatch: pytest.MonkeyPatch):
    keep(store)
    site = report(store)
    before = (site / "index.html").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(LabError, match="disk full while writing the report"):
        report(store)
    assert (site / "index.html").read_bytes() == before


def test_a_foreign_folder_is_refused(store: Store, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not a dynascope report") as caught:
        write(store, tmp_path / "mine")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    with pytest.raises(UsageError, match="is a file"):
        write(store, tmp_path / "mine" / "thesis.tex")
    with pytest.raises(UsageError, match="overlap"):
        write(store, store.root / "site")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"share": 0.51, "interval": [0.41, 0.61], "of": 100}, "51 % [41, 61] of 100"),
        ({"share": 0.0034, "interval": [0.001, 0.0091], "of": 1000}, "0.3 % [0.1, 0.9] of 1000"),
        ({"share": 1}, "100 %"),
        (3.2e-12, "3.2 × 10⁻¹²"),
        (1e-10, "10⁻¹⁰"),
        (-0.25, "−0.25"),
        (123456.789, "123457"),
        (50_000, "50\u202f000"),
        (2.0, "2"),
        ("nan", "NaN"),
        (float("-inf"), "−∞"),
        (True, "yes"),
        (None, "–"),
        ("", "–"),
        ([], "none"),
        ([[1.0, 2.0], [0.5, 2.0]], "(1, 2), (0.5, 2)"),
        (list(range(50)), "0, 1, 2, 3, …, 48, 49 (50 values)"),
        ({"first_step": 3, "share": 0.5}, "first step 3; share 0.5"),
    ],
)
def test_values_read_as_a_person_would_write_them(value: object, said: str):
    assert formatting.text(value) == said


def test_systems_have_names():
    for entry in registry.entries():
        prefix = entry.id.partition(".")[0]
        assert prefix in formatting.SYSTEMS, f"{prefix} has no name of its own"
    assert formatting.system("concept.signal-order") == "Concept learning"
    assert formatting.system("my-own.thing") == "My own"
