"""Plotly's script, if it is installed, for the interactive versions of figures.

It is most of a report's bytes, so it is stored compressed, as text that the browser unpacks.
"""

from __future__ import annotations

import base64
import gzip
from importlib.util import find_spec
from pathlib import Path

SCRIPT = "assets/plotly.packed.js"


def find_script() -> Path | None:
    """Plotly's script in the installed package, or None."""
    found = find_spec("plotly")
    places = found.submodule_search_locations if found else None
    script = Path(next(iter(places))) / "package_data" / "plotly.min.js" if places else None
    return script if script and script.is_file() else None


def pack(script: bytes) -> str:
    """A script that holds another one, compressed: the property `packed` of its element. The same bytes each time."""
    text = base64.b64encode(gzip.compress(script, mtime=0)).decode("ascii")
    return f'document.currentScript.packed = "{text}";\n'
