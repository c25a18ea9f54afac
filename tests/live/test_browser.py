"""The live page in a real Chromium: pick, turn, run, watch, pause, stop, overlay, explore, and what goes wrong.

One server for all tests, with a store that has two runs and a sweep. Each test has a page of its own; whatever it does,
nothing is printed on the console as an error, and no request leaves the machine.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dynascope.lab.inventory import inventory
from dynascope.lab.store import Store

playwright = pytest.importorskip("playwright.sync_api", reason="drives the browser")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]
QUIET = "--disable-background-networking --disable-component-update --disable-sync --disable-quic --no-first-run"
OPTIONS = ["--no-sandbox", "--disable-gpu", *QUIET.split(" ")]
ID, LONG = "tiny.spiral", "200000000"
SECONDS = 60_000  # how long to wait for something, in ms: for a busy machine


@pytest.fixture(scope="module")
def server(filled: Store, start: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("browser") / "runs"
    shutil.copytree(filled.root, root)
    return start(Store(root))


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield found
        found.close()


@pytest.fixture
def open_page(server: Any, browser) -> Iterator[Callable]:
    """Opens pages of one visitor, and looks at what they print and ask for."""
    problems: list[str] = []
    contexts = []

    def asked(request) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", None, ""):
            problems.append(f"a request to {request.url}")

    def opened(place: str = "", width: int = 1400, expected: str = "", context=None):
        if context is None:
            context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SECONDS)
        page.on("request", asked)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda said: (
                problems.append(said.text)
                if said.type in ("error", "warning") and not (expected and expected in said.text)
                else None
            ),
        )
        page.goto(f"{server.address}{place.removeprefix('#')}")
        page.wait_for_selector("html[data-ready=true]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def on_tiny(open_page: Callable, **options):
    """A page with the tiny experiment on it."""
    page = open_page(f"#/run/{ID}", **options)
    page.wait_for_selector("#run")
    return page


def set_field(page, name: str, value: str) -> None:
    page.evaluate("document.querySelector('.more-fields')?.setAttribute('open', '')")
    page.fill(f"#field-{name}", value)


def until(page, expression: str) -> None:
    """Wait for something; the page's policy does not let Playwright do so inside of it."""
    deadline = time.monotonic() + SECONDS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        time.sleep(0.05)


def wait_for_points(page, more_than: int = 0) -> int:
    until(page, f"Number(document.getElementById('panels').dataset.points) > {more_than}")
    return int(page.get_attribute("#panels", "data-points"))


def go(page) -> None:
    """Run, and wait until the panels are those of the new run."""
    before = page.get_attribute("#panels", "data-run")
    page.click("#run")
    until(page, f"document.getElementById('panels').dataset.run !== '{before}'")


def ended(page, how: str) -> None:
    page.wait_for_selector(f"#panels[data-ended={how}]")


def stop(page) -> None:
    page.click("#stop")
    ended(page, "stopped")


def test_an_experiment_is_picked_turned_run_and_judged(open_page, server):
    page = open_page()
    assert "Press Run" in page.inner_text("#head"), "a newcomer is told what to do"
    page.fill("#search", "spiral shrink")
    page.click(f"[data-id='{ID}']")
    page.wait_for_selector("#run")
    assert "token" not in page.url
    page.locator("#field-rate").fill("0.9")
    page.click("#run")
    ended(page, "done")
    page.wait_for_selector("[data-claim=shrinks].is-holds")
    page.wait_for_selector("#figures img")
    until(page, "document.querySelector('#figures img').naturalWidth > 0")
    assert page.locator(".panel").evaluate_all("all => all.map(one => one.dataset.variable)") == ["place", "size"]
    assert page.get_attribute("#panels", "data-theory") == "1"
    assert any(run.config["rate"] == 0.9 for run in server.store.runs(ID)[0]), "it is in the store"


def test_points_arrive_while_it_runs_and_stop_when_it_is_stopped(open_page):
    page = on_tiny(open_page)
    set_field(page, "steps", LONG)
    go(page)
    first = wait_for_points(page)
    wait_for_points(page, first)
    stop(page)
    assert "Run the same setting again" in page.inner_text("#progress")
    assert page.is_disabled("#stop")


def test_a_run_is_paused_and_goes_on(open_page):
    page = on_tiny(open_page)
    set_field(page, "steps", LONG)
    set_field(page, "rate", "0.98")
    go(page)
    wait_for_points(page)
    page.click("#pause")
    page.wait_for_selector("#pause:has-text('Continue')")
    time.sleep(0.6)  # what was under way arrives
    before = page.get_attribute("#panels", "data-points")
    time.sleep(0.8)
    assert page.get_attribute("#panels", "data-points") == before
    page.click("#pause")
    wait_for_points(page, int(before))
    stop(page)


def test_the_clock_goes_back_through_training_time_and_plays(open_page):
    page = on_tiny(open_page)
    points = wait_for_points(page, 50)
    page.locator("#clock input").fill("10")
    page.wait_for_selector("#panels[data-points='11']")
    assert page.inner_text("#clock output") == "step 20"
    page.click("#clock button")
    wait_for_points(page, 12)
    page.wait_for_selector(f"#panels[data-points='{points}']")


def test_the_control_flips_the_verdict(open_page):
    page = on_tiny(open_page)
    page.check("#control")
    assert page.input_value("#field-rate") == "1.01"
    page.click("#run")
    page.wait_for_selector("[data-claim=shrinks].is-known")
    ended(page, "done")
    page.click("[data-claim=shrinks] summary")
    assert "This is the control" in page.inner_text("[data-claim=shrinks]")


def test_a_wrong_value_is_told_beside_its_field(open_page):
    page = on_tiny(open_page, expected="422")
    page.fill("#field-rate", "7")
    page.wait_for_selector("[data-field=rate] .error:has-text('rate must be a number > 0 and < 2; got 7')")
    assert page.get_attribute("#field-rate", "aria-invalid") == "true"
    run = page.get_attribute("#panels", "data-run")
    page.click("#run")
    page.fill("#field-rate", "0.9")
    page.wait_for_selector("#field-rate:not([aria-invalid])")
    assert page.get_attribute("#panels", "data-run") == run, "nothing was run"


def test_turning_a_knob_runs_at_once_where_that_is_asked_for(open_page):
    page = on_tiny(open_page)
    page.check("#as-i-turn")
    slider = page.locator("[data-field=rate] input[type=range]")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    wait_for_points(page)
    ended(page, "done")
    assert page.input_value("#field-rate") != "0.99"


def test_knobs_that_are_turned_fast_keep_running(open_page, server):
    page = on_tiny(open_page)
    set_field(page, "steps", LONG)
    begun = []
    page.on("request", lambda request: begun.append(request.post_data) if request.url.endswith("/api/run") else None)
    page.check("#as-i-turn")
    for rate in ("0.81", "0.82", "0.83", "0.84"):  # each while the one before is being stopped or is beginning
        page.fill("#field-rate", rate)
        page.wait_for_timeout(150)
    wait_for_points(page)
    until(page, "document.getElementById('panels').dataset.run !== '0'")
    page.wait_for_timeout(1500)
    assert len(begun) > 1
    assert page.is_checked("#as-i-turn")
    assert page.input_value("#field-rate") == "0.84"
    page.fill("#field-rate", "0.85")
    page.wait_for_timeout(500)
    assert '"rate":"0.85"' in begun[-1], "it still runs as I turn"
    stop(page)


def test_a_run_of_another_tab_is_shown_and_leaves_the_box_ticked(open_page):
    first = on_tiny(open_page)
    second = on_tiny(open_page, context=first.context)
    first.check("#as-i-turn")
    second.fill("#field-rate", "0.79")
    second.click("#run")
    ended(first, "done")
    assert first.input_value("#field-rate") == "0.79"
    assert first.is_checked("#as-i-turn")


def test_cookies_of_other_programs_do_not_matter_and_the_page_sets_none(open_page, browser, server):
    context = browser.new_context()
    names = {"prefs": '{"a":1}', "quoted": 'a"b', "words": "größe", "dynascope-1": "x"}
    context.add_cookies([{"name": name, "value": value, "url": "http://127.0.0.1"} for name, value in names.items()])
    page = on_tiny(open_page, context=context)
    page.wait_for_selector("#connection:has-text('connected')")
    page.fill("#field-rate", "0.78")
    page.click("#run")
    ended(page, "done")
    assert {cookie["name"] for cookie in context.cookies()} == set(names)
    context.close()


def test_a_page_without_the_token_says_how_to_get_in_and_a_reload_keeps_it(open_page, browser, server):
    page = on_tiny(open_page)
    assert server.token not in page.url
    page.reload()
    page.wait_for_selector("#run")
    with browser.new_context() as other:
        stranger = other.new_page()
        stranger.goto(f"http://127.0.0.1:{server.port}/")
        stranger.wait_for_selector("#notice:has-text('open the address that `dynascope live` printed')")
        stranger.evaluate(f"location.hash = '#token={server.token}/run/{ID}'")
        stranger.wait_for_selector("#run")
        assert server.token not in stranger.url


def test_a_figure_is_opened_by_itself_and_saved(open_page):
    page = on_tiny(open_page)
    page.click("tr[data-digest] button:has-text('Show')")
    until(page, "document.querySelector('#figures img')?.naturalWidth > 0")
    with page.context.expect_page() as found:
        page.click("#figures a")
    found.value.wait_for_selector("svg")
    for kind, start in (("SVG", b"<?xml"), ("PNG", b"\x89PNG")):
        with page.expect_download() as saved:
            page.click(f"#figures button:has-text('{kind}')")
        assert saved.value.suggested_filename == f"spiral.{kind.lower()}"
        assert Path(saved.value.path()).read_bytes().startswith(start)


def test_stored_runs_are_overlaid(open_page):
    page = on_tiny(open_page)
    page.click("tr[data-digest] >> nth=-1 >> button:has-text('Show')")
    wait_for_points(page)
    page.check("tr[data-digest] >> nth=-2 >> input")
    page.wait_for_selector("#panels[data-others='1']")
    lines = "document.querySelector('[data-variable=size] .plot').data.length"
    assert page.evaluate(lines) == 6, "two members each: the other run, this one, and the theory"
    assert "rate" in page.inner_text("#legend")


def test_the_command_and_the_python_are_shown(open_page):
    page = on_tiny(open_page)
    page.fill("#field-rate", "0.5")
    page.wait_for_timeout(300)
    page.click("#show-command")
    page.wait_for_selector("#code:has-text('dynascope run tiny.spiral --preset quick --set rate=0.5')")
    page.click("#show-python")
    page.wait_for_selector("#code:has-text(\"Setting.parse('tiny.spiral', preset='quick', changes={'rate': 0.5})\")")


def test_the_explorer_draws_and_downloads(open_page, tmp_path):
    page = open_page(f"#/explore/{ID}")
    page.wait_for_selector("#explore-plots[data-lines='4'] .main-svg")
    page.select_option("#choice-variable", "size")
    page.wait_for_selector("#explore-plots[data-lines='2']")
    page.check("#log-y")
    until(page, "document.querySelector('#explore-plots .plot').layout.yaxis.type === 'log'")
    for name, start in (("CSV", b"start,step,size"), ("netCDF", b"\x89HDF"), ("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as found:
            page.click(f"#downloads >> text={name}")
        assert Path(found.value.path()).read_bytes().startswith(start), name


def test_an_experiment_of_which_nothing_moves_says_so_and_can_be_explored_at_once(open_page):
    page = open_page("#/explore")
    page.wait_for_selector("#explore-plots .main-svg")
    page.evaluate("location.hash = '#/run/tiny.sums'")
    page.wait_for_selector("#head h1 code:has-text('n')")
    page.click("#run")
    ended(page, "done")
    page.wait_for_selector("[data-claim=square].is-holds sup")
    assert "Nothing in this run moves with time" in page.inner_text("#panels")
    page.click("tr[data-digest] a:has-text('Explore')")
    page.wait_for_selector("#choice-experiment option[value='tiny.sums']", state="attached")
    page.wait_for_selector("#explore-plots[data-lines='1'] .main-svg")


def test_a_cell_of_a_sweep_leads_to_its_run(open_page):
    page = open_page("#/sweeps")
    page.wait_for_selector("#sweep-map .main-svg")
    page.select_option("#choice-rate", "2")
    page.select_option("#choice-style", "1")
    page.click("text=Open this run")
    page.wait_for_selector("#explore-plots .main-svg")
    assert re.search(rf"#/explore/{ID}/[0-9a-f]+$", page.url)
    page.go_back()
    page.wait_for_selector("#sweep-map .nsewdrag")
    page.locator("#sweep-map .nsewdrag").click()
    page.wait_for_selector("#explore-plots .main-svg")


def test_a_second_tab_and_a_reload_see_the_run_under_way(open_page):
    first = on_tiny(open_page)
    set_field(first, "steps", LONG)
    set_field(first, "rate", "0.97")
    go(first)
    wait_for_points(first)
    second = open_page("#/", context=first.context)
    wait_for_points(second)
    assert second.input_value("#field-rate") == "0.97"
    first.reload()
    wait_for_points(first)
    assert first.input_value("#field-steps") == LONG
    stop(second)
    ended(first, "stopped")


def test_the_first_page_has_a_picture_of_each_system_and_some_move(open_page):
    page = open_page()
    assert page.locator(".system-card").count() == 8
    until(page, "document.querySelectorAll('.system-card .plate canvas').length === 7")
    until(page, "[...document.querySelectorAll('.system-card .plate img')].every((one) => one.naturalWidth > 0)")
    drawn = "document.querySelector('.plate canvas').toDataURL()"
    before = page.evaluate(drawn)
    until(page, f"{drawn} !== {before!r}")
    page.click("[data-system=concept] > a")
    page.wait_for_selector("#run")
    assert page.url.endswith("#/run/concept.signal-order")
    page.click(".wordmark")
    page.wait_for_selector(".system-card")


def test_an_experiment_that_was_never_run_opens_on_the_evidence_that_ships(open_page):
    page = open_page("#/run/concept.signal-order")
    assert wait_for_points(page) > 50
    assert "ships with dynascope" in page.inner_text("#shown")
    assert page.locator(".sentence.is-holds").count() == 6
    sentence = page.inner_text("[data-claim=theorem]")
    assert re.search(r"0\.02\d+\s+expected: largest < 0\.1", sentence)
    assert "median 0." not in sentence, "further numbers are folded"
    page.click("[data-claim=theorem] summary")
    assert "median" in page.inner_text("[data-claim=theorem] .detail")
    assert "μ = (0.5, 2)" in page.inner_text("#legend")
    order = "[...document.querySelector('.front').children].map((one) => one.dataset.variable ?? 'scene')"
    assert page.evaluate(order) == ["output", "scene", "test_loss"]
    assert page.inner_text("[data-variable=output] h2") == "Output at the held-out point"
    assert "Theory is cut at" in page.inner_text("[data-variable=test_loss] .note")
    begun = page.get_attribute(".drawing", "aria-label")
    page.locator("#clock input").fill("3")
    page.wait_for_selector("#panels[data-points='4']")
    assert page.get_attribute(".drawing", "aria-label") != begun, "the drawing shows the state at the clock"


def test_a_link_opens_an_experiment_with_its_knobs_and_the_page_gives_such_links(open_page, server):
    page = open_page(f"#/run/{ID}?set=rate%3D0.876&set=style%3Dfancy&seed=3")
    page.wait_for_selector("#run")
    assert (page.input_value("#field-rate"), page.input_value("#field-style")) == ("0.876", "fancy")
    assert "have not been run" in page.inner_text("#panels"), "and shows no run of other knobs"
    page.check("#control")
    page.click("#show-link")
    page.wait_for_selector(f"#code:has-text('#/run/{ID}?control=1&seed=3')")
    assert server.token not in page.inner_text("#code")
    page.reload()
    page.wait_for_selector("#run")
    assert page.is_checked("#control")


def test_a_lecture_is_given_from_the_keyboard(open_page):
    page = on_tiny(open_page)
    points = wait_for_points(page, 50)
    page.locator("#head").click()
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(f"#panels[data-points='{points - 1}']")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"#panels[data-points='{points}']")
    page.keyboard.press("Space")
    until(page, f"Number(document.getElementById('panels').dataset.points) < {points}")
    size = "parseFloat(getComputedStyle(document.getElementById('head')).fontSize)"
    before = page.evaluate(size)
    page.keyboard.press("f")
    page.wait_for_selector("html[data-lecture=true]")
    assert page.evaluate(size) > 1.2 * before
    assert not page.is_visible("#form")
    page.keyboard.press("Escape")
    page.wait_for_selector("html[data-lecture=false]")
    page.keyboard.press("c")
    ended(page, "done")
    page.wait_for_selector("[data-claim=shrinks].is-known")
    assert page.is_checked("#control")
    page.focus("#field-rate")
    page.keyboard.press("c")
    assert page.is_checked("#control"), "what is typed into a field is no command"


def test_further_panels_are_folded_and_parts_of_the_data_share_their_scale(open_page):
    page = open_page("#/run/features.near-zero")
    wait_for_points(page)
    page.evaluate("location.hash = '#/run/recall.phases'")
    page.wait_for_selector("#more-panels:not([hidden])")
    summary = page.inner_text("#more-panels summary")
    assert re.match(r"\d more panels: .*Attention on noise", summary)
    page.click("#more-panels summary")
    until(page, "document.querySelectorAll('#more-panels .main-svg').length > 0")


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_screen(open_page, width):
    page = on_tiny(open_page, width=width)
    page.click("tr[data-digest] button:has-text('Show')")
    wait_for_points(page)
    page.wait_for_selector("#figures img")
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    top = "(name) => document.getElementById(name).getBoundingClientRect().top"
    if width < 600:
        assert page.evaluate(top, "form") > page.evaluate(top, "panels"), "results first on a phone"
    for place, ready in ((f"#/explore/{ID}", "#explore-plots .main-svg"), ("#/sweeps", "#sweep-map .main-svg")):
        page.evaluate(f"location.hash = '{place}'")
        page.wait_for_selector(ready)
        assert page.evaluate(overflow) <= 0, place


def test_everything_is_reached_by_keyboard_alone(open_page):
    page = open_page()

    def tab_to(selector: str, most: int = 120) -> None:
        for _ in range(most):
            if page.evaluate(f"document.activeElement.matches({selector!r})"):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"{selector} is not reached")

    tab_to("#search")
    page.keyboard.type("tiny.spiral")
    tab_to(f"[data-id='{ID}']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#run")
    tab_to("#field-rate")
    page.keyboard.press("Control+A")
    page.keyboard.type("0.93")
    page.keyboard.press("Enter")
    ended(page, "done")
    tab_to("#clock input")
    page.keyboard.press("Home")
    page.wait_for_selector("#panels[data-points='1']")
    tab_to("#show-command")
    page.keyboard.press("Space")
    page.wait_for_selector("#code:has-text('rate=0.93')")


def test_two_hundred_requests_at_once_and_fifty_streams_are_served(open_page, server):
    page = on_tiny(open_page)
    with ExitStack() as stack:
        streams = [stack.enter_context(server.ask("/api/events")) for _ in range(50)]
        with ThreadPoolExecutor(50) as pool:
            paths = ["/", f"/api/runs/{ID}", "/assets/main.js", f"/api/experiments/{ID}"] * 50
            assert set(pool.map(server.status, paths)) == {200}
        page.fill("#field-rate", "0.91")
        page.click("#run")
        ended(page, "done")
        for stream in streams:
            text = b""
            while b"event: ended" not in text:
                text += stream.read1()


def test_a_server_that_is_killed_in_the_middle_of_a_run_loses_nothing(open_page, server):
    """The last test: it ends the server."""
    page = on_tiny(open_page, expected="net::ERR")
    set_field(page, "steps", LONG)
    set_field(page, "rate", "0.5")
    go(page)
    wait_for_points(page)
    os.kill(server.process.pid, signal.SIGKILL)
    page.wait_for_selector("#notice:has-text('The server does not answer')")
    assert int(page.get_attribute("#panels", "data-points")) > 0, "what was seen stays"

    def kept() -> list[Path]:
        items = [item for item in inventory(server.store, ID) if item.state == "unfinished"]
        return [path for item in items for path in (item.folder / "checkpoints").glob("*.npz")]

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not kept():
        time.sleep(0.2)
    assert kept(), "the worker has kept a checkpoint before it ended"
    assert len([item for item in inventory(server.store, ID, sweeps=False) if item.state == "complete"]) >= 2
