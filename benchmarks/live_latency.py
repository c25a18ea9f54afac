"""The live page in a real Chromium: from the start of the server to the first panel, from the click to the first new
curve when it is compiled already; and what watching costs.

Each run is a setting that is not stored yet, with the same compiled program. The cost of watching is that of the same
runs with a monitor that takes what the page would take, beside one that takes nothing, in turns.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.timing import tell

ID = "concept.signal-order"
SMALL = {"dim": "4", "samples": "64", "batch": "16", "epochs": "4", "seeds": "2"}
CLICK = """() => new Promise((done) => {
  const panels = document.getElementById("panels"), before = panels.dataset.run, began = performance.now();
  const look = new MutationObserver(() => {
    if (panels.dataset.run !== before && Number(panels.dataset.points) > 0) {
      look.disconnect();
      done(performance.now() - began);
    }
  });
  look.observe(panels, { attributes: true });
  document.getElementById("run").click();
})"""


def clicks(count: int) -> list[dict[str, Any]]:
    """Milliseconds from the click to the first points of the new run on the screen."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("\nlive-latency: left out, there is no Chromium")
        return []
    from playwright.sync_api import sync_playwright

    rows = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ended, sync_playwright() as driver:
        command = [sys.executable, "-m", "dynascope", "live", "--runs", f"{folder}/runs"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ended.callback(server.kill)
        assert server.stdout is not None
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(f"{server.stdout.readline().strip()}/run/{ID}")
        page.wait_for_selector("#run")
        for setting, fields in (("small", SMALL), ("quick", {})):
            page.select_option("#preset", "full")
            page.select_option("#preset", "quick")
            page.evaluate("document.querySelector('.more-fields')?.setAttribute('open', '')")
            for name, value in fields.items():
                page.fill(f"#field-{name}", value)
            times = []
            for k in range(count + 2):
                page.fill("#field-second_signal", str(2.001 + 0.001 * k))
                page.wait_for_timeout(300)
                times.append(page.evaluate(CLICK))
                if setting == "quick":
                    page.click("#stop")
                page.wait_for_selector("#panels[data-ended]", timeout=120_000)
                page.wait_for_timeout(300)
            warm = times[2:]
            row = {"setting": setting, "median ms": round(statistics.median(warm)), "worst ms": round(max(warm))}
            rows.append({**row, "first, with compilation, ms": round(times[0]), "clicks": count})
        browser.close()
        server.terminate()
        server.wait()
    return rows


PANEL = "Number(document.getElementById('panels').dataset.points) > 0"
CURVES = f"document.querySelector('canvas.sketch') !== null || {PANEL}"


def cold(count: int) -> list[dict[str, Any]]:
    """Seconds from the start of the server, with an empty store, to the first panel of the trace that ships (its
    curves, and its axes), and to that of a run that is requested as soon as the page is there."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    rows: list[tuple[float, float, float, float]] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(count):
            with tempfile.TemporaryDirectory() as folder, ExitStack() as ended:
                command = [sys.executable, "-m", "dynascope", "live", "--runs", f"{folder}/runs"]
                began = time.perf_counter()
                server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                ended.callback(server.wait)
                ended.callback(server.terminate)
                assert server.stdout is not None
                page = browser.new_page()
                page.goto(f"{server.stdout.readline().strip()}/run/{ID}")
                _until(page, CURVES)
                curves = time.perf_counter()
                _until(page, PANEL)
                shown = time.perf_counter()
                page.wait_for_selector("html[data-ready=true]")
                clicked = time.perf_counter()
                page.click("#run")
                _until(page, "document.getElementById('panels').dataset.run === '1' && " + PANEL)
                panel = time.perf_counter()
                rows.append((curves - began, shown - began, clicked - began, panel - clicked))
                page.click("#stop")
                page.close()
        browser.close()
    names = (
        "curves of the trace that ships, s",
        "with axes, s",
        "ready for a click, s",
        "from it to its first panel, s",
    )
    return [
        {
            "starts": count,
            **{name: round(statistics.median(v), 2) for name, v in zip(names, zip(*rows, strict=True), strict=True)},
        }
    ]


def _until(page: Any, expression: str) -> None:
    while not page.evaluate(expression):
        time.sleep(0.01)


def watching(turns: int) -> list[dict[str, Any]]:
    """CPU and wall seconds of quick runs, watched and not."""
    from dynascope.dynamics.monitor import Monitor, monitored_by
    from dynascope.dynamics.schema import Schema
    from dynascope.dynamics.watching import Rows, Wanted
    from dynascope.lab import registry
    from dynascope.lab.fields import build
    from dynascope.lab.machine import precision
    from dynascope.live.views import encode, recorded_layouts

    class Watched(Monitor):
        watch_every = 0.1

        def watch(self, schema: Schema) -> dict[str, Wanted]:
            self.layouts = recorded_layouts(schema)
            return {name: Wanted(layout.members, layout.rows) for name, layout in self.layouts.items()}

        def watched(self, found: Sequence[Rows]) -> None:
            for rows in found:
                encode(self.layouts[rows.variable].narrow(rows.values))

    kind = registry.load(ID)
    spent: dict[str, list[tuple[float, float]]] = {"not watched": [], "watched": []}
    with precision(False, "highest"):
        for turn in range(turns + 1):
            for name, monitor in (("not watched", Monitor()), ("watched", Watched())):
                experiment: Any = build(kind, {"second_signal": 2.5 + 0.01 * turn}, "quick")
                wall, cpu = time.perf_counter(), time.process_time()
                with monitored_by(monitor):
                    experiment.measure(0)
                spent[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    found = {
        name: [statistics.median(values[1:]) for values in ([t[k] for t in times] for k in (0, 1))]
        for name, times in spent.items()
    }
    base = found["not watched"]
    return [
        {
            "run": name,
            "wall s": round(wall, 2),
            "CPU s": round(cpu, 2),
            "more wall": f"{100 * (wall / base[0] - 1):+.1f} %",
            "more CPU": f"{100 * (cpu / base[1] - 1):+.1f} %",
        }
        for name, (wall, cpu) in found.items()
    ]


def main() -> None:
    rows = cold(5)
    if rows:
        tell("live-cold: from the start of the server to the first panel", rows)
    rows = clicks(15)
    if rows:
        tell("live-latency: from the click to the first new curve, compiled already", rows)
    tell("live-watching: concept.signal-order, quick, with and without somebody who watches", watching(5))


if __name__ == "__main__":
    main()
