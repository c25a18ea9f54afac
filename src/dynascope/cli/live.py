"""The command `live`: the lab in the browser."""

from __future__ import annotations

import os
import socket
from importlib.util import find_spec
from typing import Annotated

import typer

from dynascope.cli.options import Runs, say
from dynascope.lab.errors import UsageError

NEEDED = ("starlette", "uvicorn", "plotly")


def live(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on this machine (default: a free one).")
    ] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    runs: Runs = None,
) -> None:
    """Open the lab in the browser: change an experiment's fields, watch it learn, explore stored runs and sweeps.

    The printed address can be reached from this machine only and contains a secret token. Runs go to the store. Ctrl-C
    ends the server; a run in progress keeps a checkpoint.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise UsageError(f"the live page needs {', '.join(missing)}: pip install 'dynascope[live]'")
    from dynascope.lab.store import Store

    store = Store(runs)
    try:
        store.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--runs {store.root} cannot be created ({error.strerror}): choose another folder") from None
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
            listening.listen(128)  # a browser that connects before the server runs waits, and is not refused
        except OSError as error:
            raise UsageError(
                f"--port {port} cannot be used ({error.strerror}): choose another, or 0 for a free one"
            ) from None
        from dynascope.live.serving import serve

        os.environ.setdefault("MPLBACKEND", "Agg")
        serve(listening, store, open_page=open_page, say=say)
