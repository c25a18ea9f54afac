"""The gallery: every experiment with the panel of its card, which leads to its figure, its main claim and its command.

Pictures and verdicts are those of the stored runs of the quick presets. An experiment without one shows the card in
`pictures/cards`, of its quick run at seed 0, which `make evidence` keeps, or a figure from the page of its system.
"""

from __future__ import annotations

import io
import json
import re
from html import escape
from pathlib import Path
from typing import Any

from dynascope.lab import registry
from dynascope.lab.entry import Entry
from dynascope.lab.errors import LabError
from dynascope.lab.lookup import load
from dynascope.lab.report.about import find_registered
from dynascope.lab.report.rendering import render
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from make_reference import SYSTEMS

DOCS = Path(__file__).parent
CARDS = DOCS / "pictures" / "cards"
WIDTH = 900
"""Of a figure, in pixels."""
VERDICTS = {"holds": "✓ holds", "fails": "✗ fails", "erratum": "! not as printed"}


def gallery(runs: Path | None) -> tuple[str, dict[str, bytes]]:
    """The page, and its pictures by name."""
    evidence = json.loads((DOCS / "evidence.json").read_text(encoding="utf-8"))["claims"]
    store = Store(runs) if runs is not None and runs.is_dir() else None
    parts = ["---\nhide: [navigation]\n---", "# Gallery", _introduction(store)]
    pictures: dict[str, bytes] = {}
    for system in SYSTEMS:
        parts += [f"## [{_heading(system)}]({system}.md)", '<div class="gallery">']
        for entry in registry.entries(f"{system}.*"):
            run = _stored(store, entry)
            picture = _picture(run)
            if run and picture:
                pictures[f"{entry.id}.webp"] = picture
                pictures[f"{entry.id}.card.webp"] = _panel(run) or picture
            claims: list[Any] = [vars(claim) for claim in run.claims] if run else evidence.get(entry.id, [])
            parts.append(_card(entry, claims[0] if claims else None, bool(picture)))
        parts.append("</div>")
    return "\n\n".join(parts) + "\n", pictures


def keep_cards(runs: Path) -> list[Path]:
    """Keep the cards of a store's quick runs at seed 0.

    Args:
        runs: The folder of the store.

    Returns:
        The pictures that were written.
    """
    written = []
    CARDS.mkdir(parents=True, exist_ok=True)
    for entry in registry.entries():
        run = _stored(Store(runs), entry, seed=0)
        if panel := run and (_panel(run) or _picture(run)):
            path = CARDS / f"{entry.id}.webp"
            path.write_bytes(panel)
            written.append(path)
    return written


def _introduction(store: Store | None) -> str:
    text = "Every experiment, with its question, its main claim, and the command that runs it in seconds to minutes."
    text += " Solid lines are measured, dashed lines are theory."
    if store is None:
        return f"{text} The panels are of kept runs; `make docs RUNS=runs` shows the whole figures of yours."
    return f"{text} Click a panel for the whole figure."


def _heading(system: str) -> str:
    """The title of a system's page."""
    found = re.match(r"# (.*)", (DOCS / f"{system}.md").read_text(encoding="utf-8"))
    return found[1] if found else system


def _stored(store: Store | None, entry: Entry, seed: int | None = None) -> StoredRun | None:
    if store is None:
        return None
    try:
        return load(entry.id, preset="quick", seed=seed, store=store)
    except LabError:
        return None


def _panel(run: StoredRun) -> bytes | None:
    """The panel of a run's card, drawn again from its data."""
    files, _ = render(run, find_registered)
    return next((content for name, content in files.items() if name.endswith(".card.webp")), None)


def _picture(run: StoredRun | None) -> bytes | None:
    """The first figure of a run, small enough for a page of many."""
    if run is None or not run.manifest["figures"]:
        return None
    from PIL import Image

    with Image.open(run.folder / "figures" / f"{run.manifest['figures'][0]}.png") as image:
        image = image.convert("RGB")
        image.thumbnail((WIDTH, 2 * WIDTH))
        file = io.BytesIO()
        image.save(file, "webp", quality=80)
    return file.getvalue()


def kept_picture(entry: Entry) -> Path | None:
    """The card that is kept, or else the first figure of the experiment on the page of its system."""
    card = CARDS / f"{entry.id}.webp"
    figures = sorted((DOCS / "pictures").glob(f"{entry.id.replace('.', '-')}*.png"))
    return card if card.is_file() else figures[0] if figures else None


def _card(entry: Entry, claim: dict[str, Any] | None, pictured: bool) -> str:
    lines = ['<figure class="card" markdown="0">']
    image = f'alt="{escape(entry.title)}" loading="lazy"'
    if pictured:
        card = f"gallery/{entry.id}.card.webp"
        lines.append(f'<a href="gallery/{entry.id}.webp"><img src="{card}" {image}></a>')
    elif kept := kept_picture(entry):
        page = f"{entry.id.partition('.')[0]}.html"
        lines.append(f'<a href="{page}"><img src="{kept.relative_to(DOCS).as_posix()}" {image}></a>')
    lines += ["<figcaption>", f"<strong>{escape(entry.title)}</strong>"]
    if claim:
        lines.append(
            f'<p><span class="{claim["verdict"]}">{VERDICTS[claim["verdict"]]}</span> {escape(claim["statement"])}</p>'
        )
    lines += [f"<code>dynascope run {entry.id} --preset quick</code>", "</figcaption>", "</figure>"]
    return "\n".join(lines)
