"""What the pages print is true: their examples run, their links lead somewhere, their commands are understood."""

from __future__ import annotations

import os
import re
import runpy
import shlex
from functools import cache
from pathlib import Path

import jax
import pytest
import typer.main
from matplotlib import pyplot
from PIL import Image

from dynascope.cli import app
from dynascope.lab import registry
from dynascope.lab.fields import assignment, build, grid_axis
from dynascope.lab.limit_search.question import ask
from dynascope.lab.limit_search.ranges import split

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SCRIPTS = sorted((DOCS / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a script in this process, where warnings are errors, dtypes are not mixed and shapes are checked.

    A process of its own would import JAX anew for each. What a script sets in JAX ends with it.
    """
    monkeypatch.chdir(tmp_path)
    precision = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]

    def run(script: Path) -> None:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as ended:  # an example that lacks an optional package says so and ends
            if ended.code:
                raise

    yield run
    jax.config.update("jax_enable_x64", precision)
    pyplot.close("all")


def fenced(page: Path, language: str) -> list[str]:
    """The page's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@cache
def scripts_text() -> str:
    return "\n".join(script.read_text(encoding="utf-8") for script in SCRIPTS)


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")  # Lightning's
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_example_runs(script: Path, run_here):
    run_here(script)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_block_is_part_of_an_example_or_runs_by_itself(page: Path, tmp_path: Path, run_here):
    for number, block in enumerate(fenced(page, "python")):
        if block.strip("\n") not in scripts_text():
            script = tmp_path / f"block{number}.py"
            script.write_text(block)
            run_here(script)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_to_a_file(page: Path):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in anchors, f"{page.name} links to {target}; there are {anchors}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_of_the_docs_is_in_the_index(page: Path):
    if page.parent == DOCS and page.name != "index.md":
        assert f"({page.name})" in (DOCS / "index.md").read_text(encoding="utf-8")


def commands(page: Path) -> list[str]:
    """The lines of the page's shell blocks, and the code spans of its text, that call dynascope with arguments."""
    lines = [line for language in ("sh", "console") for block in fenced(page, language) for line in block.splitlines()]
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines += re.findall(r"`([^`\n]+)`", text)
    calls = [re.sub(r"^(\$ )?(\.venv/bin/)?", "", line.strip()) for line in lines]
    return [line for line in calls if line.startswith("dynascope ")]


def subcommands() -> dict:
    return typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]


def parsed(line: str) -> tuple[str, dict]:
    """The subcommand of a line and its parameters, as typer reads them; it fails where typer would."""
    words = shlex.split(line, comments=True)[1:]
    return words[0], subcommands()[words[0]].make_context("dynascope", words[1:]).params


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_names_what_exists(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(DOCS / "examples")  # where the reader's own file lies
    folders = [DOCS / "examples", ROOT / "examples" / "dynascope-grokking" / "src" / "dynascope_grokking"]
    monkeypatch.setenv("DYNASCOPE_EXPERIMENTS", os.pathsep.join(map(str, folders)))
    for line in commands(page):
        if "..." in line or line.split()[1].startswith("-"):  # a pattern, or an option of the whole
            continue
        if len(line.split()) == 2:  # a command spoken of
            assert line.split()[1] in subcommands(), line
            continue
        kind, given = parsed(line)
        if kind == "list":
            assert given["pattern"] == "*" or registry.match([given["pattern"]]), line
        if kind == "limits":
            base = dict(assignment(text) for text in given["changes"] or ())
            options = {name: given[name] for name in ("claim", "preset", "control")}
            ask(given["id"], dict(split(text) for text in given["over"]), base=base, **options)
        if kind not in ("run", "show", "sweep"):
            continue
        ids = given["ids"] if kind == "run" else [given["id"]]
        changes = dict(assignment(text) for text in given.get("changes") or ())
        for experiment in map(registry.load, registry.match(ids)):
            build(experiment, changes, given.get("preset"), given.get("control", False))
            for axis in given.get("grid") or ():
                grid_axis(experiment, axis)


def test_every_experiment_has_its_line_on_a_page_and_its_system_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md")))
    for entry in registry.entries():
        assert f"| `{entry.id}` |" in pages, f"no page of docs/ has a line for {entry.id}"
        assert f"'{entry.id.split('.')[0]}.*'" in readme, f"the README does not name the system of {entry.id}"


def test_screenshots_have_all_their_colors():
    """A palette turns shadows into halos, and tints a background that is nearly white."""
    for shot in (DOCS / "pictures").glob("live-*"):
        with Image.open(shot) as image:
            assert image.mode == "RGB", shot.name
            assert len(image.getcolors(2**24) or ()) > 1000, shot.name


def test_pictures_are_small():
    for picture in (DOCS / "pictures").iterdir():
        assert picture.stat().st_size <= 120_000, picture.name
