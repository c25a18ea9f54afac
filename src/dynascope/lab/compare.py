"""Comparison of two stored runs: their differences, and the verdicts of both on every claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dynascope.lab.stored_run import StoredRun

if TYPE_CHECKING:
    from dynascope.lab.claims import Claim

Pair = tuple[object, object]


@dataclass(frozen=True)
class Comparison:
    """Two runs. An entry that only one of them has is None for the other."""

    a: StoredRun
    b: StoredRun

    @cached_property
    def fields(self) -> dict[str, Pair]:
        """The settings in which they differ: experiment, seed and fields."""
        settings = ({"experiment": run.id, "seed": run.seed, **run.config} for run in (self.a, self.b))
        return differences(*settings)

    @cached_property
    def circumstances(self) -> dict[str, Pair]:
        """Differences in code, data, device and versions."""
        return differences(_circumstances(self.a), _circumstances(self.b))

    @cached_property
    def claims(self) -> dict[str, tuple[Claim | None, Claim | None]]:
        """The claims of both by id: those of the first in their order, then those that only the second has."""
        a, b = ({claim.id: claim for claim in run.claims} for run in (self.a, self.b))
        return {id: (a.get(id), b.get(id)) for id in dict.fromkeys([*a, *b])}

    def as_json(self) -> dict[str, object]:
        """The output of `dynascope compare --json`."""
        runs = {
            name: {
                "id": run.id,
                "digest": run.digest,
                "preset": run.preset,
                "seed": run.seed,
                "finished": run.manifest["finished"],
                "folder": str(run.folder),
            }
            for name, run in (("a", self.a), ("b", self.b))
        }
        claims = [
            {"id": id, "a": _outcome(one), "b": _outcome(other), "same_verdict": _verdict(one) == _verdict(other)}
            for id, (one, other) in self.claims.items()
        ]
        return {**runs, "fields": self.fields, "circumstances": self.circumstances, "claims": claims}


def differences(a: Mapping[str, object], b: Mapping[str, object]) -> dict[str, Pair]:
    """The keys whose values differ, in the order of the first, then of the second."""
    pairs = {name: (a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b])}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _circumstances(run: StoredRun) -> dict[str, object]:
    manifest = run.manifest
    code = {f"code of {step}": sum[:8] for step, sum in (manifest.get("code") or {}).items() if sum}
    data = {f"data {name}": sum[:12] for name, sum in (manifest.get("data") or {}).items()}
    return {
        **code,
        **data,
        "device": manifest.get("device"),
        "dynascope": manifest.get("dynascope"),
        **(manifest.get("versions") or {}),
    }


def _verdict(claim: Claim | None) -> str | None:
    return claim.verdict if claim else None


def _outcome(claim: Claim | None) -> dict[str, object] | None:
    return claim.model_dump(mode="json", include={"verdict", "measured", "expected"}) if claim else None
