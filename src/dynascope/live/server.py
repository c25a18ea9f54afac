"""The server of the live page: its modules, experiments, runs, sweeps, and the events of the current run.

It listens on the loopback interface only. Files are read and experiments loaded in a thread, so the page always
responds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from dynascope.lab.errors import LabError, StoreError, UsageError
from dynascope.lab.experiment import Experiment
from dynascope.lab.field_types import format_value
from dynascope.lab.fields import FieldError
from dynascope.lab.json_text import plain_json
from dynascope.lab.registry import load
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.live import showcase, stored
from dynascope.live.captions import captions
from dynascope.live.forms import form, read_form
from dynascope.live.guard import Guard
from dynascope.live.session import Session

ASSETS = files("dynascope.live") / "assets"
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
DRAWING_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The policy for an SVG that is opened by itself: no scripts run."""

WORKER_SECONDS = 1.5
"""The time until the worker is started, unless a page has been drawn before: its imports would slow the first page."""

Handler = Callable[[HttpRequest], Awaitable[Response]]


def app(store: Store, *, token: str, port: int, on_use: Callable[[], object] = lambda: None) -> Starlette:
    """The server's application, for one store; the other arguments are those of its `Guard`."""
    live = Live(store)
    routes = [
        Route("/", live.page),
        Route("/assets/{name}", live.asset),
        Route("/api/experiments", reads(live.experiments)),
        Route("/api/experiments/{id}", reads(live.form)),
        Route("/api/opening", answers(live.opening), methods=["POST"]),
        Route("/api/showcase/{id}", reads(live.shown)),
        Route("/api/check", answers(live.check), methods=["POST"]),
        Route("/api/run", answers(live.run), methods=["POST"]),
        Route("/api/stop", answers(live.stop), methods=["POST"]),
        Route("/api/pause", answers(live.pause), methods=["POST"]),
        Route("/api/resume", answers(live.resume), methods=["POST"]),
        Route("/api/events", live.events),
        Route("/api/runs/{id}", reads(live.runs)),
        Route("/api/runs/{id}/{digest}", reads(live.stored_run)),
        Route("/api/runs/{id}/{digest}/views", reads(live.views)),
        Route("/api/runs/{id}/{digest}/variables/{trace}", reads(live.variables)),
        Route("/api/runs/{id}/{digest}/lines/{trace}", reads(live.lines)),
        Route("/api/runs/{id}/{digest}/figures/{name}.{kind}", reads(live.figure)),
        Route("/api/runs/{id}/{digest}/{trace}.nc", reads(live.netcdf)),
        Route("/api/runs/{id}/{digest}/{trace}.csv", reads(live.csv)),
        Route("/api/sweeps", reads(live.sweeps)),
        Route("/api/sweeps/{id}/{digest}", reads(live.maps)),
        Route("/api/sweeps/{id}/{digest}/run", reads(live.cell)),
    ]
    guard = Middleware(Guard, token=token, port=port, on_use=on_use)
    application = Starlette(routes=routes, middleware=[guard], lifespan=live.lifespan)
    application.router.redirect_slashes = False
    application.state.close = live.close
    return application


def answers(handler: Handler) -> Handler:
    """The handler, with the lab's errors as responses: one line, and one for each invalid field."""

    async def answered(request: HttpRequest) -> Response:
        try:
            return await handler(request)
        except FieldError as error:
            return JSONResponse({"error": str(error), "fields": dict(error.lines)}, 422)
        except stored.NotThere as error:
            return JSONResponse({"error": str(error)}, 404)
        except UsageError as error:
            return JSONResponse({"error": str(error)}, 422)
        except (LabError, StoreError) as error:
            return JSONResponse({"error": str(error)}, 500)

    return answered


def reads(handler: Callable[[HttpRequest], object]) -> Handler:
    """A handler that reads files, in a thread. A value that is not a response is sent as JSON."""

    async def read(request: HttpRequest) -> Response:
        found = await run_sync(handler, request)
        return found if isinstance(found, Response) else plain(found)

    return answers(read)


def plain(value: object) -> JSONResponse:
    """Any value as JSON, with infinities and NaN as words."""
    return JSONResponse(plain_json(value))


class Live:
    """The handlers of the routes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._session: Session | None = None
        self._is_serving = False

    @property
    def session(self) -> Session:
        if self._session is None:  # created on the event loop, to which its locks belong
            self._session = Session(str(self.store.root.resolve()))
        return self._session

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._is_serving = True
        later = asyncio.get_running_loop().call_later(WORKER_SECONDS, self._start)
        try:
            yield
        finally:
            later.cancel()
            await self.close()

    def _start(self) -> None:
        """Start the worker, which belongs to a server that runs."""
        if self._is_serving:
            self.session.start()

    async def close(self) -> None:
        await self.session.close()

    async def page(self, request: HttpRequest) -> Response:
        text = (ASSETS / "index.html").read_text(encoding="utf-8")
        names = (path.name for path in ASSETS.iterdir() if path.name.endswith(".js"))
        modules = "\n".join(f'<link rel="modulepreload" href="/assets/{name}">' for name in sorted(names))
        return Response(text.replace("</head>", f"{modules}\n</head>"), media_type="text/html")

    async def asset(self, request: HttpRequest) -> Response:
        found = assets().get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("no such file", 404)
        kind = TYPES[Path(found.name).suffix]
        return Response(found.read_bytes(), media_type=kind, headers={"cache-control": "private, no-cache"})

    def experiments(self, request: HttpRequest) -> object:
        shown, moving = showcase.pictures(), showcase.moving()
        return [
            {**one, "picture": name if (name := f"{one['id']}.webp") in shown else "", "moves": one["id"] in moving}
            for one in stored.experiments(self.store)
        ]

    def form(self, request: HttpRequest) -> object:
        kind = experiment(request.path_params["id"])
        return {**form(kind), "captions": captions(kind.id)}

    async def opening(self, request: HttpRequest) -> Response:
        """The run on which a form opens: the digest of a stored one, or the evidence that ships for its experiment."""
        setting = await self._setting(await _json(request))
        self._start()
        self.session.prepare(setting)
        digest = await run_sync(stored.opening, self.store, setting)
        found = {} if digest else await run_sync(showcase.record, setting.id, stored.is_usual(setting))
        return plain({"digest": digest, **found})

    def shown(self, request: HttpRequest) -> object:
        """The evidence that ships for an experiment, without loading it: a page shows it first if nothing is stored."""
        id = request.path_params["id"]
        return {**showcase.record(id), "captions": captions(id), "is_stored": id in self.store.ids()}

    async def check(self, request: HttpRequest) -> Response:
        setting = await self._setting(await _json(request))
        return plain(await run_sync(lambda: {"command": setting.command, "python": setting.python}))

    async def run(self, request: HttpRequest) -> Response:
        given = await _json(request)
        setting = await self._setting(given)
        facts = {"id": setting.id, "preset": setting.preset or "full", "control": setting.control, "seed": setting.seed}
        facts |= {"changes": {name: format_value(value) for name, value in setting.changes.items()}}
        facts |= {"command": setting.command, "python": setting.python, "title": setting.experiment.title()}
        facts |= {"page": str(given.get("page", ""))[:100]}
        return plain({"number": await self.session.run(setting, facts)})

    async def _setting(self, given: Any) -> Setting:
        """The setting that a page requests; parsing checks all of it."""
        form = read_form(given)
        form["experiment"] = await run_sync(experiment, form["experiment"])
        return await run_sync(lambda: Setting.parse(**form))

    async def stop(self, request: HttpRequest) -> Response:
        await self.session.stop()
        return plain({})

    async def pause(self, request: HttpRequest) -> Response:
        self.session.pause()
        return plain({})

    async def resume(self, request: HttpRequest) -> Response:
        self.session.resume()
        return plain({})

    async def events(self, request: HttpRequest) -> Response:
        self._start()  # the page is drawn: now the imports of the worker and of forms
        asyncio.get_running_loop().run_in_executor(None, _leave_devices)
        after = request.headers.get("last-event-id", "")
        return StreamingResponse(self.session.log.follow(after), media_type="text/event-stream")

    def runs(self, request: HttpRequest) -> object:
        return stored.runs(self.store, request.path_params["id"])

    def stored_run(self, request: HttpRequest) -> object:
        return stored.describe(self._opened(request))

    def views(self, request: HttpRequest) -> object:
        run = self._opened(request)
        traces = {"measured": run.measured(), "predicted": run.predicted()}
        return {name: [] if trace is None else _late("views").drawn_variables(trace) for name, trace in traces.items()}

    def variables(self, request: HttpRequest) -> object:
        return _late("explorer").variables(self._trace(request))

    def lines(self, request: HttpRequest) -> object:
        asked = request.query_params
        array = _late("explorer").variable(self._trace(request), asked.get("variable", ""))
        dims = {name: asked.get(name) or None for name in ("x", "color", "facet")}
        return _late("explorer").lines(array, **dims, rest=asked.get("rest", "lines"))

    def figure(self, request: HttpRequest) -> object:
        name, kind = request.path_params["name"], request.path_params["kind"]
        data = stored.figure(self._opened(request), name, kind).read_bytes()
        media = "image/svg+xml" if kind == "svg" else "image/png"
        return Response(data, media_type=media, headers={"content-security-policy": DRAWING_POLICY})

    def netcdf(self, request: HttpRequest) -> object:
        run, name = self._opened(request), request.path_params["trace"]
        stored.trace(run, name)  # read once, which checks it
        data = (run.folder / f"{name}.nc").read_bytes()
        return _download(data, "application/x-netcdf", f"{_file_name(request)}.nc")

    def csv(self, request: HttpRequest) -> object:
        name = request.query_params.get("variable", "")
        text = _late("explorer").csv(_late("explorer").variable(self._trace(request), name))
        plain_name = "".join(sign if sign.isalnum() else "-" for sign in name)
        return _download(text.encode(), "text/csv", f"{_file_name(request)}-{plain_name}.csv")

    def sweeps(self, request: HttpRequest) -> object:
        return _late("sweeps").sweeps(self.store)

    def maps(self, request: HttpRequest) -> object:
        return _late("sweeps").maps(self.store, request.path_params["id"], request.path_params["digest"])

    def cell(self, request: HttpRequest) -> object:
        named, asked = request.path_params, request.query_params
        try:
            place = [int(k) for k in asked.get("place", "").split(",")]
            seed = int(asked.get("seed", "0"))
        except ValueError:
            raise UsageError("a cell has whole numbers: place=0,1&seed=0") from None
        run = _late("sweeps").run_at(self.store, named["id"], named["digest"], place, seed)
        return {"id": run.id, "digest": run.digest}

    def _opened(self, request: HttpRequest) -> StoredRun:
        return stored.opened(self.store, request.path_params["id"], request.path_params["digest"])

    def _trace(self, request: HttpRequest) -> Any:
        return stored.trace(self._opened(request), request.path_params["trace"])


async def _json(request: HttpRequest) -> Any:
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise UsageError("a request has a form as JSON") from None


def experiment(id: str) -> type[Experiment]:
    """An experiment by its id: a page names no files."""
    if "/" in id or "\\" in id or id.endswith(".py") or "::" in id:
        raise UsageError(f"an experiment is named by its id; got '{id[:100]}'")
    _leave_devices()
    return load(id)


def _late(name: str) -> Any:
    """A module of the live page that imports xarray, Matplotlib or JAX: the first page does not wait for these."""
    return import_module(f"dynascope.live.{name}")


@cache
def _leave_devices() -> None:
    """Keep this process off the accelerator, which belongs to the worker: an experiment's module may make arrays."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    import dynascope.lab.execute  # noqa: F401  with the dynamics, which every experiment imports


def _file_name(request: HttpRequest) -> str:
    named = request.path_params
    return f"{named['id']}-{named['digest'][:8]}-{named['trace']}"


def _download(data: bytes, media: str, name: str) -> Response:
    return Response(data, media_type=media, headers={"content-disposition": f'attachment; filename="{name}"'})


@cache
def assets() -> dict[str, Any]:
    """The files that a page loads, by name: its own, pictures of experiments, the report's style, and Plotly's script
    from its package."""
    own = {path.name: path for path in ASSETS.iterdir() if Path(path.name).suffix in TYPES}
    report = files("dynascope.lab.report") / "assets"
    plotly = files("plotly") / "package_data" / "plotly.min.js"
    own |= showcase.pictures()
    return {**own, "style.css": report / "style.css", "icon.svg": report / "icon.svg", "plotly.min.js": plotly}
