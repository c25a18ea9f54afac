"""The folder `evidence/`: runs at the sizes that were made, without their large files, judged by today's claims."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dynascope.lab import registry
from dynascope.lab.claims import Claim
from dynascope.lab.errors import one_line
from dynascope.lab.fingerprint import fingerprints
from dynascope.lab.machine import precision
from dynascope.lab.netcdf import load
from dynascope.lab.setting import Setting
from dynascope.lab.steps import judge
from dynascope.lab.stored_run import StoredRun, read_claims

FOLDER = Path(__file__).resolve().parent.parent / "evidence"
FILES = ("manifest.json", "config.json", "claims.json", "reduced.nc")
LARGEST = 700_000
"""Bytes of a `reduced.nc` that is kept."""


def keep(runs: Iterable[StoredRun]) -> list[Path]:
    """Copy the runs of whole settings other than quick, at seed 0, where the folder has none or an older one. Returns
    the folders that were written."""
    written = []
    for run in runs:
        name = run.preset or "full"
        if run.seed or run.sweep or name == "quick" or run.manifest.get("kind") != name:
            continue
        target = FOLDER / run.id / name
        if _json(target / "manifest.json").get("finished", "") >= run.manifest["finished"]:
            continue
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for file in FILES:
            if (run.folder / file).stat().st_size <= LARGEST:
                shutil.copyfile(run.folder / file, target / file)
        written.append(target)
    return written


def places() -> list[Path]:
    """The folders of the runs that are kept."""
    return sorted(path.parent for path in FOLDER.glob("*/*/claims.json"))


def name_of(place: Path) -> str:
    """The run's name in `evidence.json`: the experiment's id, @, the setting."""
    return f"{place.parent.name}@{place.name}"


def claims_of(place: Path) -> tuple[list[Claim], str]:
    """The claims of a run that is kept, judged anew, and why that was not possible: if `reduced.nc` is not kept, or
    lacks what today's code judges, they are the claims of the day. Of those, one that held and is known to fail today
    is another claim of the same name, and left out."""
    of_the_day = [_explained(claim, place) for claim in read_claims(place / "claims.json")]
    known = Setting.parse(place.parent.name, preset=place.name).known_failures
    of_the_day = [claim for claim in of_the_day if claim.verdict == "fails" or claim.id not in known]
    if not (place / "reduced.nc").exists():
        return of_the_day, "no reduced.nc"
    try:
        fields = _json(place / "config.json")["fields"]
        setting = Setting.of(registry.load(place.parent.name)(**fields), preset=place.name)
        with precision(True, "highest"):
            claims = judge(setting, load(place / "reduced.nc"))
        return [_explained(claim, place) for claim in claims], ""
    except Exception as error:  # a field, a variable or a coordinate is missing, or has another shape
        return of_the_day, one_line(error)


def facts_of(place: Path) -> dict[str, Any]:
    """How a run that is kept was made: `device`, `seconds`, `finished`, and whether the code that measures and reduces,
    or the fields of the setting, have `changed` since."""
    manifest, kind = _json(place / "manifest.json"), registry.load(place.parent.name)
    changed = manifest.get("code", {}).get("reduce") != fingerprints(kind)["reduce"]
    fields = _json(place / "config.json").get("fields")
    changed |= fields != Setting.parse(kind, preset=place.name).fields
    seconds = None if manifest.get("resumed") else manifest.get("run_seconds")
    facts = {"device": manifest.get("device"), "seconds": seconds, "finished": manifest.get("finished")}
    return {**facts, "changed": changed}


def _explained(claim: Claim, place: Path) -> Claim:
    """A claim that fails for no known reason, with the one that is on record today for the setting of this name."""
    known = Setting.parse(place.parent.name, preset=place.name).known_failures.get(claim.id, "")
    return claim.model_copy(update={"known": known}) if claim.verdict == "fails" and not claim.known else claim


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
