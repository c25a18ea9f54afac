"""The form of the manifests of runs and of sweeps, checked whenever one is read.

A store may come from somebody else. Manifests are validated both when written and when read: types are right, and no
name leads out of the folder.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dynascope.lab.errors import StoreError, plain


def file_name(name: str) -> str:
    """The name, if a file of a run may have it: no separators, no control characters, no leading dot."""
    if not name.isprintable() or name[:1] in ("", ".") or "/" in name or "\\" in name:
        raise ValueError(f"must be a file name without a leading dot; got '{plain(name)}'")
    return name


def _path_inside(path: str) -> str:
    for part in path.split("/"):
        file_name(part)
    return path


Count = Annotated[int, Field(ge=0)]
Checksums = dict[Annotated[str, AfterValidator(_path_inside)], Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]
FileName = Annotated[str, AfterValidator(file_name)]
Verdict = Literal["holds", "fails", "erratum"]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class Counts(_Strict):
    """The number of claims with each verdict, and the verdicts that are news."""

    holds: Count
    fails: Count
    erratum: Count
    main: Verdict | None
    """None if there are no claims: an observation."""
    news: list[str]
    errata: dict[str, Count] = {}


class Origin(_Strict):
    """The origin of a measurement that experiments share."""

    key: str
    sha256: str = ""


class RunManifest(_Strict):
    """The entries of a run's manifest that are read."""

    id: str
    digest: str
    seed: Count
    dynascope: str
    files: Checksums
    figures: list[FileName]
    claims: Counts
    command: str
    finished: str
    title: str = ""
    preset: str | None = None
    kind: str = ""
    recordings: str = ""
    sweep: bool = False
    started: str | None = None
    device: str | None = None
    compile_seconds: float | None = None
    run_seconds: float | None = None
    judge_seconds: float | None = None
    data: dict[str, str] | None = None
    versions: dict[str, str] | None = None
    code: dict[str, str] | None = None
    shared: dict[str, Origin] | None = None


class SweepFigure(_Strict):
    """A figure of a sweep."""

    name: FileName
    title: str
    width: Count
    height: Count


class SweepManifest(_Strict):
    """The entries of a sweep's manifest that are read."""

    id: str
    title: str
    command: str
    grid: dict[str, list[Any]]
    seeds: Annotated[int, Field(ge=1)]
    runs: Count
    preset: str | None
    control: bool = False
    figures: list[SweepFigure]
    files: Checksums


class LimitsManifest(_Strict):
    """The entries of the manifest of a search for limits that are read."""

    id: str
    title: str
    claim: str
    command: str
    over: list[str]
    runs: Count
    preset: str | None
    control: bool
    figures: list[SweepFigure]
    files: Checksums


def check_manifest(kind: type[BaseModel], manifest: dict[str, Any]) -> None:
    """Raise a `StoreError`, one line that names the entry, if a manifest does not have this form."""
    try:
        kind.model_validate(manifest)
    except ValidationError as error:
        first = error.errors()[0]
        entry = ": ".join(plain(part) for part in first["loc"])
        raise StoreError(f"the entry {entry}: {first['msg'].removeprefix('Value error, ')}") from None
