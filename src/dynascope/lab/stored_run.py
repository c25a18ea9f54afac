"""A complete run in the store, and reading it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynascope.lab.errors import StoreError
from dynascope.lab.files import checksum
from dynascope.lab.manifest import RunManifest, check_manifest

if TYPE_CHECKING:  # listing must not wait for them
    import xarray as xr

    from dynascope.lab.claims import Claim

FORMAT = 2
OBSERVED = "observed."
"""The prefix of the ids of observations; their names follow."""
OF_SWEEP = "sweep"
"""The entry of the manifest that marks a run that only a sweep has requested."""


class OldRunError(StoreError):
    """A run that an earlier version stored in a form that this version does not read."""


@dataclass(frozen=True)
class StoredRun:
    """A complete run. Opening it reads the manifest only; each file is checked against its checksum when read."""

    folder: Path
    """Its folder in the store."""
    manifest: Mapping[str, Any]
    """The facts of the run: id, digest, seed, preset, command, versions, device, times, claims, checksums."""
    reused: bool = False
    """Whether it was stored before this call."""

    @classmethod
    def open(cls, folder: Path, reused: bool = False) -> StoredRun:
        """The run in a folder, whose manifest is read.

        Args:
            folder: The folder of the run.
            reused: Recorded as the attribute `reused`.

        Raises:
            StoreError: If the folder is not a complete run.
        """
        path = folder / "manifest.json"
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StoreError(
                f"{path} is missing: not a complete run; remove the folder or run again with --force"
            ) from None
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise StoreError(f"{path} is damaged: run again with --force to replace the run") from error
        if isinstance(manifest, dict) and manifest.get("format") in range(1, FORMAT):
            raise OldRunError(f"{path} was written by an earlier version of dynascope: run it again, or remove it")
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or manifest.get("status") != "complete":
            raise StoreError(f"{path} is not the manifest of a complete run: run again with --force to replace it")
        try:
            check_manifest(RunManifest, manifest)
        except StoreError as error:
            raise StoreError(f"{path} is damaged ({error}): run again with --force to replace the run") from None
        if (manifest["id"], manifest["digest"]) != (folder.parent.name, folder.name.partition(".")[0]):
            raise StoreError(
                f"{path} belongs to another run ({manifest['id']}/{manifest['digest']}): remove the folder"
            )
        return cls(folder, manifest, reused)

    @property
    def id(self) -> str:
        return self.manifest["id"]

    @property
    def digest(self) -> str:
        return self.manifest["digest"]

    @property
    def seed(self) -> int:
        return self.manifest["seed"]

    @property
    def preset(self) -> str | None:
        return self.manifest.get("preset")

    @property
    def observed(self) -> bool:
        """Whether it is an observation of a training that was run elsewhere."""
        return self.id.startswith(OBSERVED)

    @property
    def recordings(self) -> str:
        """The number of recordings of an observation, in words."""
        return str(self.manifest.get("recordings") or "")

    @property
    def sweep(self) -> bool:
        """Whether only a sweep has requested it."""
        return bool(self.manifest.get(OF_SWEEP))

    @cached_property
    def config(self) -> dict[str, Any]:
        """The experiment's fields."""
        path = self._check("config.json")
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))["fields"]
        except (ValueError, KeyError, TypeError):
            fields = None
        if not isinstance(fields, dict):
            raise StoreError(f"{path} holds no fields: run again with --force to replace the run")
        return fields

    @cached_property
    def claims(self) -> list[Claim]:
        """The claims, the main one first."""
        return read_claims(self._check("claims.json"))

    @property
    def verdict(self) -> str | None:
        """`fails` if a verdict differs from the record, else the main claim's verdict; None for an observation."""
        counts = self.manifest["claims"]
        return "fails" if counts["news"] else counts["main"]

    @property
    def figures(self) -> dict[str, Path]:
        """The figures by name, in the experiment's order, as PNG; each has an SVG beside it."""
        return {name: self.folder / "figures" / f"{name}.png" for name in self.manifest["figures"]}

    def measured(self) -> xr.Dataset | xr.DataTree:
        """The arrays that `measure` returned: a dataset or a tree of datasets, in memory."""
        return _load(self._check("measured.nc"))

    def predicted(self) -> xr.Dataset | xr.DataTree | None:
        """The arrays that `predict` returned, in the same form; None if there is no theory."""
        return _load(self._check("predicted.nc")) if "predicted.nc" in self.manifest["files"] else None

    def reduced(self) -> xr.Dataset | xr.DataTree:
        """The few numbers that were judged and drawn, in the same form. An observation has none."""
        return _load(self._check("reduced.nc"))

    def verify(self) -> StoredRun:
        """The run itself, with every file checked against its checksum; a `StoreError` if one is missing or damaged."""
        for name in self.manifest["files"]:
            self._check(name)
        return self

    def _check(self, name: str) -> Path:
        path = self.folder / name
        try:
            found = checksum(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}): run again with --force") from error
        if found != self.manifest["files"].get(name):
            raise StoreError(f"{path} is damaged (its checksum differs): run again with --force to replace the run")
        return path


def read_claims(path: Path) -> list[Claim]:
    """The claims of a file that a run wrote."""
    from dynascope.lab.claims import Claim

    try:
        return [Claim.model_validate(claim) for claim in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise StoreError(f"{path} holds no claims: run again with --force to replace the run") from error


def _load(path: Path) -> xr.Dataset | xr.DataTree:
    from dynascope.lab.netcdf import load

    return load(path)
