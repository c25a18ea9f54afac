"""The interactive version of a run's main figure, where Plotly is installed.

Its data is a script of its own that the page loads on demand: a page opened from a file cannot fetch JSON. Plotly's
script is most of a report's bytes, so it lies there compressed, as text that the browser unpacks.
"""

from __future__ import annotations

import base64
import gzip
from importlib.util import find_spec
from pathlib import Path

from dynascope.lab.report.pages import RunPage

SCRIPT = "assets/plotly.packed.js"


def plotly_script() -> Path | None:
    """Plotly's script in the installed package, or None."""
    found = find_spec("plotly")
    places = found.submodule_search_locations if found else None
    script = Path(next(iter(places))) / "package_data" / "plotly.min.js" if places else None
    return script if script and script.is_file() else None


def interactive(run: RunPage, site: Path) -> str | None:
    """Write the script of the run's main figure, with Plotly's own once for the site. Its name, or None where the
    figure has none or Plotly is not installed."""
    source = plotly_script()
    figure = run.figures[0] if run.figures else None
    if source is None or figure is None or figure.plotly is None or figure.script is None:
        return None
    data = (run.path / figure.plotly).read_text(encoding="utf-8")
    script = site / run.folder / figure.script
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"document.currentScript.figure = {data};\n", encoding="utf-8")
    if not (site / SCRIPT).exists():
        (site / SCRIPT).write_text(packed(source.read_bytes()), encoding="ascii")
    return figure.script


def packed(script: bytes) -> str:
    """A script that holds another one, compressed: the property `packed` of its element. The same bytes each time."""
    text = base64.b64encode(gzip.compress(script, mtime=0)).decode("ascii")
    return f'document.currentScript.packed = "{text}";\n'
