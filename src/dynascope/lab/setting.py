"""The identity of a run: an experiment with its fields, the preset or control that they form, a seed, and its data.

The command, sweeps, audits, `join`, the report and the live page all make a `Setting`. It alone determines the name of
a run, its command, the digest under which it is stored, and its failures on record.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, SupportsIndex

from pydantic import ValidationError

from dynascope.lab.claims import flowed
from dynascope.lab.errors import UsageError
from dynascope.lab.experiment import Experiment, OptionalExperiment
from dynascope.lab.field_types import format_value
from dynascope.lab.fields import FieldError, build, shown
from dynascope.lab.json_text import digest_of, plain_json
from dynascope.lab.registry import check, entry_of, load

if TYPE_CHECKING:
    from dynascope.lab.claims import Claim
    from dynascope.lab.stored_run import StoredRun

LARGEST_SEED = 2**32 - 1
"""`jax.random.key` drops higher bits, so larger seeds would repeat the runs of smaller ones."""
MAIN = "the main claim"
"""The key under which a control's `known_failures` name the first claim, whichever it is."""
ABSENT = "This is the control: the phenomenon is absent here."


@dataclass(frozen=True)
class Setting:
    """One run that can be executed. Make it with `Setting.parse` or, from an instance of the experiment, `Setting.of`.

    Its kind (a preset, a control, a change of one) follows from its fields: the same fields are the same run, however
    they were given. A control is a setting in which every field that `control` names has the control's value, and the
    preset itself does not.
    """

    experiment: Experiment
    """The experiment with its fields."""
    label: str | None = None
    """The preset that was named, if one was."""
    seed: int = 0
    """Sets every random choice, from 0 to 2**32 - 1."""
    sweep: bool = False
    """Whether only a sweep requests it."""

    @classmethod
    def parse(
        cls,
        experiment: str | type[Experiment],
        *,
        preset: str | None = None,
        control: bool = False,
        changes: Mapping[str, object] | None = None,
        seed: object = 0,
        sweep: bool = False,
    ) -> Setting:
        """The setting of a request, parsed and checked.

        Args:
            experiment: An id, a user's own file (`mine.py::id`), or the class.
            preset: A preset of the experiment; `full`, or None, for its defaults.
            control: Whether to apply the control on top of the preset.
            changes: Values of fields, on top of both.
            seed: Sets every random choice: an integer from 0 to 2**32 - 1.
            sweep: Whether only a sweep requests it.

        Raises:
            UsageError: With a line for each mistake: the given value, the allowed ones, and the nearest name.
        """
        kind = load(experiment) if isinstance(experiment, str) else experiment
        return cls.of(build(kind, changes or {}, preset, control), preset=preset, seed=seed, sweep=sweep)

    @classmethod
    def of(cls, experiment: Experiment, *, preset: str | None = None, seed: object = 0, sweep: bool = False) -> Setting:
        """The setting of an instance of an experiment.

        Args:
            experiment: The experiment with its fields.
            preset: The preset that its fields come from, if any; found by itself if the fields are exactly those.
            seed: Sets every random choice: an integer from 0 to 2**32 - 1.
            sweep: Whether only a sweep requests it.

        Raises:
            UsageError: If the seed is out of range, or the experiment's id cannot be used.
        """
        check(type(experiment))
        number = seed.__index__() if isinstance(seed, SupportsIndex) and not isinstance(seed, bool) else -1
        if not 0 <= number <= LARGEST_SEED:
            line = f"seed must be an integer from 0 to {LARGEST_SEED}; got {shown(seed)}"
            raise FieldError.of(type(experiment), {"seed": line})
        return cls(experiment, preset, number, sweep)

    @classmethod
    def of_run(cls, run: StoredRun, kind: type[Experiment]) -> Setting | None:
        """The setting of a stored run; None if the class no longer accepts these fields.

        Args:
            run: The run.
            kind: The class of its experiment.
        """
        try:
            return cls(kind(**run.config), run.preset, run.seed, run.sweep)
        except ValidationError:
            return None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the experiment's address: the class in a user's own file has no other name."""
        return _arrive, (address_of(type(self.experiment)), self.fields, self.label, self.seed, self.sweep)

    @property
    def id(self) -> str:
        """The experiment's id."""
        return self.experiment.id

    @cached_property
    def fields(self) -> dict[str, object]:
        """Every field with its value, as JSON holds it."""
        return fields_of(self.experiment)

    @cached_property
    def preset(self) -> str | None:
        """The preset that the fields are, or come from; None for the experiment's defaults."""
        return self._base[0]

    @cached_property
    def control(self) -> bool:
        """Whether it is the control of its preset, or a change of that."""
        return self._base[1]

    @cached_property
    def changes(self) -> dict[str, object]:
        """The fields that differ from the preset, or from its control, with their values."""
        kind = type(self.experiment)
        base = fields_after(kind, {**_changes(kind, self.preset), **(kind.control if self.control else {})})
        return {name: value for name, value in self.fields.items() if name not in base or value != base[name]}

    @property
    def kind(self) -> str:
        """Its kind in words: `full`, `quick`, `control of quick, changed`, `point of a sweep`."""
        if self.sweep:
            return "point of a sweep"
        name = f"control of {self.preset or 'full'}" if self.control else self.preset or "full"
        return f"{name}, changed" if self.changes else name

    @cached_property
    def data(self) -> Mapping[str, str]:
        """The checksums of the data sets that it reads. A `UsageError` if one of them, or another requirement, is
        missing."""
        from dynascope.tasks.data import catalog

        if missing := self.missing:
            raise UsageError(f"{self.id}: {missing}")
        try:
            return {name: catalog.checksum(name) for name in self.experiment.data_sets()}
        except FileNotFoundError as error:
            raise UsageError(f"{self.id}: {error}") from None

    @property
    def missing(self) -> str:
        """A line that says what to install or fetch before it can run; empty if nothing is missing."""
        return self.experiment.missing() if isinstance(self.experiment, OptionalExperiment) else ""

    @cached_property
    def digest(self) -> str:
        """The name of its folder in the store: a digest of the fields, the seed and the checksums of the data."""
        facts = {"id": self.id, "fields": self.fields, "seed": self.seed}
        return digest_of(facts | ({"data": self.data} if self.data else {}))

    @property
    def command(self) -> str:
        """The command that runs it."""
        options = set_options(self.changes) + ([("--seed", str(self.seed))] if self.seed else [])
        return format_command(type(self.experiment), "run", self.preset, self.control, options)

    @property
    def python(self) -> str:
        """The Python that runs it."""
        options = {"preset": self.preset, "control": self.control, "changes": self.changes, "seed": self.seed}
        given = "".join(f", {name}={value!r}" for name, value in options.items() if value)
        return (
            "from dynascope.lab.execute import execute\n"
            "from dynascope.lab.setting import Setting\n\n"
            f"setting = Setting.parse({_typed_name(type(self.experiment))!r}{given})\n"
            "stored = execute(setting)\n"
            "stored.measured()  # the trace; also stored.predicted(), stored.claims\n"
        )

    @property
    def cost(self) -> float | None:
        """The seconds that the experiment states for it; None for a control or a change."""
        kind = type(self.experiment)
        return None if self.control or self.changes else kind.cost.get(self.preset or "full")

    @property
    def known_failures(self) -> Mapping[str, str]:
        """The claims that are known to fail here, by id, with the reason. For a control this is the main claim, under
        the key `MAIN`; any other may fail there."""
        if self.control:
            return {MAIN: ABSENT}
        found = {}
        for key, why in type(self.experiment).known_failures.items():
            setting, _, claim = key.rpartition("/")
            if not setting or setting in self._names:
                found[claim] = flowed(why)
        return found

    def on_record(self, claims: Sequence[Claim]) -> Mapping[str, str]:
        """The claims of a run in this setting that are recorded as failing, by id, with the reason.

        Args:
            claims: The claims of the run, the main one first.
        """
        if not self.control:
            return self.known_failures
        return {claim.id: ABSENT for claim in claims if claim is claims[0] or claim.verdict == "fails"}

    @cached_property
    def _names(self) -> list[str]:
        """The settings with a name whose fields are exactly these."""
        kind = type(self.experiment)
        return [name for name in _named(kind) if fields_after(kind, _changes(kind, name)) == self.fields]

    @cached_property
    def _base(self) -> tuple[str | None, bool]:
        """The preset, and whether this is its control. Fields that are exactly a preset's are that preset."""
        kind, label = type(self.experiment), self.label if self.label in type(self.experiment).presets else None
        if self._names:
            name = label if label in self._names else self._names[0]
            return None if name == "full" and "full" not in kind.presets else name, False
        if self._is_control(label):
            others = [label] if label else [None, *kind.presets]
            exact = (
                name for name in others if fields_after(kind, {**_changes(kind, name), **kind.control}) == self.fields
            )
            return next(exact, label), True
        return label, False

    def _is_control(self, preset: str | None) -> bool:
        """Whether the control's fields have its values, and the preset's do not."""
        kind = type(self.experiment)
        names, base = list(kind.control), fields_after(kind, _changes(kind, preset))
        wanted = fields_after(kind, {**_changes(kind, preset), **kind.control})
        there = {name: wanted.get(name) for name in names}
        return there != {name: base.get(name) for name in names} and there == {n: self.fields.get(n) for n in names}


def fields_of(experiment: Experiment) -> dict[str, object]:
    """The fields of an experiment as JSON holds them."""
    return plain_json(experiment.model_dump(mode="json"))


def fields_after(kind: type[Experiment], changes: Mapping[str, object]) -> dict[str, object]:
    """The fields of a class after a change, as JSON holds them; none if the class refuses them, as one with a field
    that must be given."""
    try:
        return fields_of(kind.model_validate(dict(changes)))
    except ValidationError:
        return {}


def format_command(
    kind: type[Experiment], verb: str, preset: str | None, control: bool, options: Iterable[tuple[str, str]]
) -> str:
    """The command `dynascope VERB ID`, with the preset, the control and further options with their values."""
    words = ["dynascope", verb, _typed_name(kind), *(["--preset", preset] if preset else [])]
    return shlex.join([*words, *(["--control"] if control else []), *(word for pair in options for word in pair)])


def set_options(changes: Mapping[str, object]) -> list[tuple[str, str]]:
    """The options that change fields: `--set key=value`."""
    return [("--set", f"{name}={format_value(value)}") for name, value in changes.items()]


@lru_cache(maxsize=64)
def address_of(kind: type[Experiment]) -> str | type[Experiment]:
    """The address by which another process finds the class: that in the catalog, or the class itself if it is not in a
    file."""
    entry = entry_of(kind)
    return entry.address if entry else kind


def possible(settings: Iterable[Setting], named: Sequence[str]) -> tuple[list[Setting], list[str]]:
    """The settings that can run, and a line for each that lacks a requirement. A `UsageError` if that is the only one,
    or if the user has `named` its id or address."""
    settings, lines = list(settings), []
    for setting in settings:
        if setting.missing:
            if len(settings) == 1 or setting.id in named or address_of(type(setting.experiment)) in named:
                raise UsageError(f"{setting.id}: {setting.missing}")
            lines.append(f"{setting.id} is left out: {setting.missing}")
    return [setting for setting in settings if not setting.missing], lines


def _arrive(
    address: str | type[Experiment], fields: Mapping[str, object], label: str | None, seed: int, sweep: bool
) -> Setting:
    return Setting(build(load(address) if isinstance(address, str) else address, fields), label, seed, sweep)


def _typed_name(kind: type[Experiment]) -> str:
    """An experiment as typed in a command: its id, with its file if that is the user's own."""
    entry = entry_of(kind)
    return f"{entry.path.name}::{kind.id}" if entry and not entry.module and not entry.origin else kind.id


def _named(kind: type[Experiment]) -> Mapping[str, Mapping[str, object]]:
    return {"full": {}, **kind.presets}


def _changes(kind: type[Experiment], preset: str | None) -> Mapping[str, object]:
    return _named(kind).get(preset or "", {})
