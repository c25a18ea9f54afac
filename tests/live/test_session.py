"""A worker carries runs out and tells of them; it pauses, stops, and is replaced where it dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynascope.lab.inventory import inventory
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.live.session import Session

TINY = f"{Path(__file__).parent / 'tiny.py'}::tiny.spiral"
LONG = 200_000_000  # steps: minutes of turning


class Follower:
    """What a page would have heard."""

    def __init__(self, session: Session):
        self.session, self.heard = session, list[tuple[str, dict[str, Any]]]()
        self._task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        async for text in self.session.log.follow():
            for event in text.strip().split("\n\n"):
                lines = dict(line.split(": ", 1) for line in event.splitlines() if not line.startswith(":"))
                if "event" in lines:
                    self.heard.append((lines["event"], json.loads(lines["data"])))

    async def until(self, kind: str, fits: Callable[[dict[str, Any]], bool] = lambda facts: True) -> dict[str, Any]:
        while True:
            for name, facts in self.heard:
                if name == kind and fits(facts):
                    return facts
            await asyncio.sleep(0.02)

    def kinds(self) -> list[str]:
        return list(dict.fromkeys(kind for kind, _ in self.heard))


def test_the_life_of_a_worker(tmp_path):
    """One worker for the whole story: starting it takes most of the time."""
    asyncio.run(asyncio.wait_for(story(tmp_path / "runs"), 120))


async def story(root: Path) -> None:
    session = Session(str(root))
    session.start()
    page = Follower(session)

    def asked(**changes: Any) -> Setting:
        return Setting.parse(TINY, preset="quick", changes=changes)

    # a run streams what it records, then what follows from it
    await session.run(asked(), {"id": "tiny.spiral"})
    ended = await page.until("ended")
    assert (ended["how"], ended["id"], ended["reused"]) == ("done", "tiny.spiral", False)
    order = [kind for kind in page.kinds() if kind in ("begin", "part", "rows", "trace", "claims", "ended")]
    assert order == ["begin", "part", "rows", "trace", "claims", "ended"]
    part = dict(page.heard)["part"]
    assert {variable["name"]: variable["kind"] for variable in part["variables"]} == {"place": "path", "size": "curve"}
    assert [facts["file"] for kind, facts in page.heard if kind == "trace"] == ["measured", "predicted"]
    assert (await page.until("claims"))["claims"][0]["verdict"] == "holds"
    assert Store(root).latest()[0]["tiny.spiral"].digest == ended["digest"]

    # one that is paused makes no progress until it goes on
    page.heard.clear()
    await session.run(asked(steps=LONG), {"id": "tiny.spiral"})
    await page.until("rows")
    session.pause()
    await page.until("paused")
    await asyncio.sleep(0.3)
    count = len(page.heard)
    await asyncio.sleep(0.6)
    assert len(page.heard) == count
    session.resume()
    await page.until("resumed")

    # one that is stopped keeps its checkpoint, and its worker
    worker = session._worker
    await session.stop()
    assert (await page.until("ended"))["how"] == "stopped"
    assert not session.busy
    assert session._worker is worker
    (unfinished,) = [item for item in inventory(Store(root)) if item.state == "unfinished"]
    assert list((unfinished.folder / "checkpoints").glob("*.npz"))

    # another run takes the place of the one under way
    page.heard.clear()
    await session.run(asked(steps=LONG, rate=0.98), {"id": "tiny.spiral"})
    await page.until("rows")
    number = await session.run(asked(rate=0.97), {"id": "tiny.spiral"})
    await page.until("begin", lambda facts: facts["number"] == number)
    assert (await page.until("ended", lambda facts: facts["how"] == "done"))["reused"] is False

    # a worker that is killed is replaced, and the page is told
    page.heard.clear()
    await session.run(asked(steps=LONG, rate=0.96), {"id": "tiny.spiral"})
    await page.until("rows")
    assert session._worker is not None
    os.kill(session._worker.process.pid or 0, signal.SIGKILL)
    lost = await page.until("ended")
    assert lost["how"] == "lost"
    assert "worker process died" in lost["message"]
    page.heard.clear()
    await session.run(asked(), {"id": "tiny.spiral"})
    assert (await page.until("ended"))["reused"] is True
    await session.close()
