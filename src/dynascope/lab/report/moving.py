"""The interactive version of a run's main figure, where Plotly is installed.

Its data is a script of its own that the page loads on demand: a page opened from a file cannot fetch JSON.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from dynascope.lab.report.pages import RunPage

SCRIPT = "assets/plotly.min.js"


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
        shutil.copyfile(source, site / SCRIPT)
    return figure.script
