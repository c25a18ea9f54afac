"""Builds the documentation site: `python docs/make_site.py [RUNS]`, or `make docs`.

The pages of docs/ are copied to build/docs, where tutorials (run, with their outputs), the reference, and a gallery of
the runs stored in RUNS join them. Zensical makes the site of these; any warning is an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "agg")
import yaml
from PIL import Image

import make_gallery
import mathml
import notebooks
import reference_pages
import site_links

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
BUILD = ROOT / "build"
STAGE = BUILD / "docs"
SITE = ROOT / "site"
SEARCH = "search-frame.js"


def main(runs: Path | None) -> int:
    """Assemble the pages and build the site; the exit status."""
    shutil.rmtree(STAGE, ignore_errors=True)
    assemble(runs)
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(configured(config), sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(BUILD / "mkdocs.yml")]
    done = subprocess.run(command, cwd=BUILD, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(done.stdout, end="")
    if done.returncode or "warning" in done.stdout.lower():
        return 1
    without_remote_scripts(BUILD / "site")
    with_formulas(BUILD / "site")
    with_wide_pictures(BUILD / "site")
    for page, link in (missing := site_links.missing(BUILD / "site")):
        print(f"{page}: there is no {link}")
    if missing:
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(BUILD / "site", SITE)
    return 0


def assemble(runs: Path | None) -> None:
    """Write every page, picture and notebook of the site into the stage."""
    for page in sorted(DOCS.glob("*.md")):
        write(page.name, rewritten(page.read_text(encoding="utf-8"), ""))
    write("contributing.md", rewritten((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), "docs/"))
    write("changelog.md", rewritten((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "docs/"))
    write("style.css", (DOCS / "site.css").read_text(encoding="utf-8"))
    write(SEARCH, (DOCS / "search.js").read_text(encoding="utf-8"))
    for picture in (DOCS / "pictures").rglob("*.*"):  # with the manifests of their runs
        write(str(picture.relative_to(DOCS)), picture.read_bytes())
    for script in sorted((DOCS / "examples").glob("*.py")):
        code = script.read_text(encoding="utf-8")
        front = "---\nsearch:\n  exclude: true\n---\n"  # the pages that quote it are found
        write(f"examples/{script.stem}.md", f"{front}# {script.name}\n\n```python\n{code}```\n")
    for script in sorted((DOCS / "tutorials").glob("*.py")):
        tutorial(script)
    print("running the examples of the reference", flush=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        outcomes = {room: list(reference_pages.examples(room)) for room in (*reference_pages.listing.ROOMS, "lab")}
    for name, text in reference_pages.pages(outcomes).items():
        write(f"reference/{name}", text)
    write("reference.md", reference_pages.linked((DOCS / "reference.md").read_text(encoding="utf-8")))
    page, pictures = make_gallery.gallery(runs)
    write("gallery.md", page)
    for name, data in pictures.items():
        write(f"gallery/{name}", data)


def tutorial(script: Path) -> None:
    """Run a tutorial, and write it as a page and as a notebook."""
    print(f"running {script.name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = notebooks.execute(script, Path(folder))
    text, pictures = notebooks.page(outcomes, script.stem)
    title, _, rest = re.sub(r"\]\((\w+)\.py\)", r"](\1.md)", text).partition("\n")
    note = f"[Notebook]({script.stem}.ipynb){{ download }} · every output on this page was made by running it."
    write(f"tutorials/{script.stem}.md", f"{title}\n\n{note}\n{rest}")
    write(f"tutorials/{script.stem}.ipynb", notebooks.notebook(outcomes))
    for name, data in pictures.items():
        write(f"tutorials/{name}", data)


def rewritten(text: str, prefix: str) -> str:
    """A page with its links as they are on the site: scripts are pages there, links to other files become text."""
    text = text.replace(f"]({prefix}", "](") if prefix else text
    text = text.replace("](../CONTRIBUTING.md)", "](contributing.md)").replace(
        "](CONTRIBUTING.md)", "](contributing.md)"
    )
    text = re.sub(r"\]\((examples|tutorials)/(\w+)\.py\)", r"](\1/\2.md)", text)
    return re.sub(r"\[([^\]\n]*)\]\((\.\./[^)\s]*|examples|tutorials|LICENSE)\)", r"\1", text)


def configured(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of mkdocs.yml with paths as seen from build/, and the navigation of the pages that are there."""
    for plugin in config["plugins"]:
        if isinstance(plugin, dict) and "mkdocstrings" in plugin:
            plugin["mkdocstrings"]["handlers"]["python"]["paths"] = [str(ROOT / "src")]
    reference = [{"All names": "reference.md"}]
    reference += [{room: f"reference/{room}.md"} for room in (*reference_pages.listing.ROOMS, "lab")]
    systems = reference_pages.listing.SYSTEMS
    reference.append({"theory": [{system: f"reference/theory-{system}.md"} for system in systems]})
    nav = [{"Reference": reference} if "Reference" in part else part for part in config["nav"]]
    return {**config, "docs_dir": "docs", "site_dir": "site", "nav": present(nav)}


def present(nav: Any) -> Any:
    """The navigation without the pages that are not there."""
    if isinstance(nav, str):
        return nav if (STAGE / nav).is_file() else None
    if isinstance(nav, dict):
        ((title, below),) = nav.items()
        found = present(below)
        return {title: found} if found else None
    return [found for found in map(present, nav) if found]


def without_remote_scripts(site: Path) -> None:
    """Let pages take the script that searches without a server from the site; the theme names one that is elsewhere."""
    for page in site.rglob("*.html"):
        local = "../" * len(page.relative_to(site).parent.parts) + SEARCH
        text = re.sub(r'src="https://[^"]*/iframe-worker/[^"]*"', f'src="{local}"', page.read_text(encoding="utf-8"))
        if remote := re.search(r'<(?:script|img)[^>]* src="(https?:[^"]*)"|<link[^>]*href="(https?:[^"]*)"', text):
            raise SystemExit(f"{page.relative_to(site)} loads a file from elsewhere: {remote[1] or remote[2]}")
        page.write_text(text, encoding="utf-8")


def with_formulas(site: Path) -> None:
    """Typeset the formulas of every page."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        try:
            page.write_text(mathml.typeset(text), encoding="utf-8")
        except mathml.FormulaError as error:
            raise SystemExit(f"{page.relative_to(site)}: {error}") from None


def with_wide_pictures(site: Path) -> None:
    """Mark the pictures that are more than twice as wide as high: on a phone these are moved sideways, not shrunk."""
    for page in site.rglob("*.html"):

        def marked(found: re.Match[str], folder: Path = page.parent) -> str:
            path = folder / found[1]
            if not path.is_file() or path.suffix == ".svg":
                return found[0]
            with Image.open(path) as picture:
                width, height = picture.size
            return found[0].replace("<img", '<img class="wide"', 1) if width > 2 * height else found[0]

        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r'<img(?![^>]* class=)[^>]* src="([^":]*)"[^>]*>', marked, text), encoding="utf-8")


def write(name: str, content: str | bytes) -> None:
    """Write a file of the stage."""
    path = STAGE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
