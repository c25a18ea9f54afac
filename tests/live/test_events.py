"""Pages follow one log: from its beginning, or from where their connection was cut."""

from __future__ import annotations

import asyncio

import pytest

from dynascope.live.events import Log


def read(log: Log, count: int, after: str = "") -> list[str]:
    """The first texts that a page gets."""

    async def some() -> list[str]:
        follower = log.follow(after)
        found = [await asyncio.wait_for(anext(follower), 1) for _ in range(count)]
        await follower.aclose()
        return found

    return asyncio.run(some())


def filled() -> Log:
    log = Log("ab12")
    log.begin(3)
    for k in range(4):
        log.add(3, "rows", f'{{"k": {k}}}')
    return log


def test_a_page_that_comes_late_gets_the_run_from_its_beginning():
    hello, events = read(filled(), 2)
    assert hello == 'event: hello\ndata: {"server": "ab12", "run": 3}\n\n'
    assert events.startswith('id: ab12-3-0\nevent: rows\ndata: {"k": 0}\n\n')
    assert events.count("event: rows") == 4


def test_a_connection_that_was_cut_goes_on_after_the_last_event():
    (events,) = read(filled(), 1, after="ab12-3-2")
    assert events == 'id: ab12-3-3\nevent: rows\ndata: {"k": 3}\n\n'


def test_the_place_in_an_earlier_run_or_server_does_not_count():
    for after in ("ab12-2-3", "ffff-3-2", "nonsense", "ab12-3-99999999999"):
        assert read(filled(), 2, after)[1].startswith("id: ab12-3-0")


def test_a_new_page_hears_nothing_of_a_run_that_is_over():
    log = filled()
    log.add(3, "ended", "{}")
    with pytest.raises(TimeoutError):
        read(log, 2)  # the first is the greeting
    assert read(log, 1, after="ab12-3-3") == ["id: ab12-3-4\nevent: ended\ndata: {}\n\n"], "one that was cut off does"


def test_events_of_an_earlier_run_are_dropped():
    log = filled()
    log.add(2, "ended", "{}")
    assert "ended" not in read(log, 2)[1]


def test_a_page_that_waits_hears_of_the_next_run():
    async def heard() -> str:
        log = filled()
        follower = log.follow()
        await anext(follower)
        await anext(follower)
        waiting = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0)
        log.begin(4)
        log.add(4, "begin", "{}")
        return await asyncio.wait_for(waiting, 1)

    assert asyncio.run(heard()) == "id: ab12-4-0\nevent: begin\ndata: {}\n\n"
