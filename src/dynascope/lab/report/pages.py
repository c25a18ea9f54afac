"""The views that pages show: one for each stored run, with the names that the templates use."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dynascope.lab import formatting
from dynascope.lab.report.about import About
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.trace_findings import sentences

FILES = {
    "measured.nc": "what was measured",
    "predicted.nc": "what theory predicts",
    "reduced.nc": "the numbers that are judged and drawn",
    "claims.json": "the claims",
    "config.json": "the configuration",
    "manifest.json": "versions, cost, checksums",
}


@dataclass(frozen=True)
class Field:
    """One line of the configuration; `changed` if it differs from the source's full setting."""

    name: str
    value: Any
    default: Any
    changed: bool


class RunPage:
    """The view of one run on its page."""

    def __init__(self, run: StoredRun, about: About, data: bool = False):
        """`data`: whether the arrays are copied too."""
        self.run, self.path, self.manifest, self.about, self.data = run, run.folder, run.manifest, about, data
        self.id, self.seed, self.preset, self.observed = run.id, run.seed, run.preset, run.observed
        self.claims, self.settings, self.setting = run.claims, run.config, about.setting(run)
        self.folder, self.command = f"{run.id}/{run.digest}", run.manifest["command"]
        self.question, self.document, self.place = about.question, about.document, about.place
        self.url = about.url
        self.notes = [paragraph.strip() for paragraph in about.notes.split("\n\n") if paragraph.strip()]

    @cached_property
    def tally(self) -> Counter[str]:
        """The number of claims with each mark: errata by kind, verdicts on record, and those that are `news`."""
        return Counter((claim.kind if claim.mark == "erratum" else None) or claim.mark for claim in self.claims)

    @cached_property
    def findings(self) -> list[str]:
        """The findings of the readers in an observation, in sentences."""
        return sentences(self.run.measured()) if self.observed else []

    @property
    def marks(self) -> list[str]:
        """The description of the run beside its verdicts: its kind and seed, or its recordings."""
        return [self.run.recordings] if self.observed else [self.kind, f"seed {self.seed}"]

    @property
    def verdicts(self) -> str:
        """The verdicts that occur, for the filter of the atlas."""
        return " ".join(dict.fromkeys(claim.verdict for claim in self.claims))

    @cached_property
    def fields(self) -> list[Field]:
        """The configuration, each field beside that of the full setting, if it is known."""
        known = self.about.defaults
        return [
            Field(name, value, known.get(name), name in known and value != known[name])
            for name, value in self.settings.items()
        ]

    @property
    def changes(self) -> dict[str, Any]:
        """The fields in which the run differs from the full setting."""
        return {field.name: field.value for field in self.fields if field.changed}

    @cached_property
    def kind(self) -> str:
        """The kind of the run in words: that of its setting, or the stored one if its experiment has changed."""
        return self.setting.kind if self.setting else str(self.manifest.get("kind") or self.preset or "full, changed")

    @property
    def control(self) -> bool:
        """Whether the run is a control, in which the phenomenon is known to be absent."""
        return self.setting.control if self.setting else self.kind.startswith("control")

    @property
    def finished(self) -> str:
        return formatting.timestamp(self.manifest.get("finished"))

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Cost, device and versions, as far as the manifest has them."""
        manifest = self.manifest
        versions = [f"{name} {version}" for name, version in (manifest.get("versions") or {}).items()]
        facts = [
            ("measuring" if self.observed else "run time", formatting.duration(manifest.get("run_seconds"))),
            ("compilation", formatting.duration(manifest.get("compile_seconds"))),
            ("theory, verdicts, figures", formatting.duration(manifest.get("judge_seconds"))),
            ("device", formatting.text(manifest.get("device"))),
            (
                "data",
                ", ".join(f"{name} (sha256 {sum[:12]}…)" for name, sum in (manifest.get("data") or {}).items()) or "–",
            ),
            ("started", formatting.timestamp(manifest.get("started"))),
            ("finished", self.finished),
            ("dynascope", formatting.text(manifest.get("dynascope"))),
            ("with", " · ".join(versions) or "–"),
        ]
        return [(name, fact) for name, fact in facts if fact != "–"]

    @property
    def files(self) -> list[tuple[str, str]]:
        """The files beside the page, each with a description."""
        copied = {name: text for name, text in FILES.items() if self.data or not name.endswith(".nc")}
        if self.observed:
            copied.pop("claims.json")
        return [(name, text) for name, text in copied.items() if (self.path / name).is_file()]
