"""The command `observe`: probes over the checkpoints of a finished training."""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynascope.cli.options import AsJson, Debug, Runs, say
from dynascope.lab.errors import Interrupted, LabError

if TYPE_CHECKING:
    from dynascope.lab.stored_run import StoredRun


def observe(
    checkpoints: Annotated[
        Path,
        typer.Argument(
            help="A folder of checkpoints: state dicts, safetensors, folders of Hugging Face, Lightning; .eqx and .npz."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="FILE:FUNCTION",
            help="Function that makes a model of the checkpoints' architecture.",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            metavar="FILE[:FUNCTION]",
            help="An .npz file with x and y, or a function that returns data.",
        ),
    ] = None,
    probes: Annotated[
        list[str] | None,
        typer.Option(
            "--probe",
            metavar="PROBE",
            help="Probe, such as sharpness, 'top_eigenvalues(k=5)' or 'NAME=weight_ranks(change=True)' "
            "(default: the loss).",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss",
            metavar="LOSS",
            help="mse, cross-entropy or FILE:FUNCTION, called as loss(model, batch) "
            "(default: cross-entropy for integer y, else mse; the model's own for data without x and y).",
        ),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer",
            metavar="FILE:FUNCTION",
            help="Function that makes a PyTorch optimizer of the model, for preconditioned probes; its state is loaded "
            "from the checkpoints.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Store it as observed.NAME (default: the name of the folder).")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", help="Learning rate η of the training, to compare the sharpness with 2/η."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Argument of the model's function; JSON or text."),
    ] = None,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Measure the checkpoints of a training, store the observation, and print the findings.

    `runs`, `compare`, `rm`, `report` and `live` accept observations like runs.
    """
    from dynascope.lab.fields import assignment, once
    from dynascope.lab.observing import Request, observe_checkpoints
    from dynascope.lab.progress_line import progress_line
    from dynascope.lab.store import Store

    given = once((assignment(text) for text in settings or ()), "--set")
    command = shlex.join(["dynascope", *sys.argv[1:]])
    request = Request(checkpoints, model, data, loss, probes or (), given, name, learning_rate, optimizer, command)
    try:
        with progress_line(f"observing {checkpoints.name}") as on_progress:
            stored = observe_checkpoints(request, Store(runs), warn=say, on_progress=on_progress)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; nothing of this observation is stored") from None
    except LabError:
        if debug:
            traceback.print_exc()
        raise
    _print(stored, as_json)


def _print(stored: StoredRun, as_json: bool) -> None:
    import xarray as xr

    from dynascope.lab.trace_findings import findings, sentences

    trace = stored.measured()
    assert not isinstance(trace, xr.DataTree)
    if as_json:
        rows = [one._asdict() for one in findings(trace)]
        head = {"id": stored.id, "digest": stored.digest, "folder": str(stored.folder)}
        print(json.dumps({**head, "recordings": stored.recordings, "findings": rows}, indent=2))
        return
    print(f"{stored.id}  {stored.recordings}")
    print("\n".join(f"  {line}" for line in sentences(trace)))
    print(stored.folder)
