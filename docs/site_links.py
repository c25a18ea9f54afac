"""Links and pictures of the built site that lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINK = re.compile(r'\b(?:href|src|srcset)="([^"]+)"')
PLACE = re.compile(r'\b(?:id|name)="?([^"\s>]+)')
SERVED = "404.html"
"""The page that only a server shows: its links begin at the root."""


def missing(site: Path) -> list[tuple[str, str]]:
    """The links within a site to files or places that are not there.

    Args:
        site: The folder of the site.

    Returns:
        The page, relative to the folder, and the link, sorted.
    """
    site = site.resolve()
    texts = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html") if page.name != SERVED}
    places = {page: set(PLACE.findall(text)) for page, text in texts.items()}
    found = {
        (page.relative_to(site).as_posix(), link)
        for page, text in texts.items()
        for link in _inside(text)
        if not _leads_somewhere(page, link, places)
    }
    return sorted(found)


def _inside(text: str) -> Iterator[str]:
    """The links of a page that stay within the site."""
    for link in set(LINK.findall(text)):
        if not urlsplit(link).scheme and not link.startswith("//"):
            yield link.replace("&amp;", "&")


def _leads_somewhere(page: Path, link: str, places: dict[Path, set[str]]) -> bool:
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    target = target / "index.html" if target.is_dir() else target
    known = places.get(target)
    return target.exists() and (not parts.fragment or known is None or unquote(parts.fragment) in known)
