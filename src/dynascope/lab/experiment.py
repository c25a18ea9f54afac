"""Experiments, the units that a user runs: a question that is measured, predicted, reduced to a few numbers, judged and
drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dynascope.lab.claims import Claim

if TYPE_CHECKING:  # heavy libraries: only the types are needed here
    import matplotlib.figure
    import xarray as xr

Group = TypeVar("Group", bound="Fields")
Values = Annotated[tuple[float, ...], Field(min_length=1)]
"""A field with one number or more."""
Claims = Iterable[Claim]
"""The type of the values that `judge` yields."""
Figures = Mapping[str, "matplotlib.figure.Figure"]
"""The type of the value that `draw` returns: figures by name."""


class Source(NamedTuple):
    """The document a phenomenon comes from, and the place in it."""

    document: str
    """The title."""
    place: str
    """Such as "Figure 2a" or "Theorem 4.1"."""

    def __str__(self) -> str:
        return f"{self.document}, {self.place}"


class Fields(BaseModel):
    """A group of fields, such as the size of a network, that an experiment inherits and can pass on as one value.

    `Size.of(experiment)` is that value. It is frozen and compared by its fields, so that an ensemble's member can hold
    it; `dict(size)` are its fields as keyword arguments.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Other defaults for inherited fields, which keep their bounds and descriptions."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Apply the `defaults` that this class itself declares."""
        super().__pydantic_init_subclass__(**kwargs)
        changed = cls.__dict__.get("defaults", {})
        for name, value in changed.items():
            if name not in cls.model_fields:
                raise TypeError(f"{cls.__name__}.defaults has {name!r}, which is not a field")
            field = copy(cls.model_fields[name])
            hint: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
            try:
                field.default = TypeAdapter(hint).validate_python(value)
            except ValidationError as error:
                raise TypeError(f"{cls.__name__}.defaults has {name}={value!r}: {error.errors()[0]['msg']}") from None
            cls.model_fields[name] = field
        if changed:
            cls.model_rebuild(force=True)

    @classmethod
    def of(cls: type[Group], whole: BaseModel) -> Group:
        """The fields of this group.

        Args:
            whole: An experiment that has them, most often by inheritance.
        """
        return cls.model_construct(**{name: getattr(whole, name) for name in cls.model_fields})


class Experiment(Fields, ABC):
    """One phenomenon. The docstring's first line is its question; every pydantic field is something to vary.

    The defaults are the document's full setting. `presets` are named changes to them, `quick` among them, and
    `control` is the change under which the phenomenon is known to be absent: the first claim of `judge`, the main
    one, must fail there. Class variables are read from the source text by the catalog, so keep them literal.

    The five methods are steps, each stored under the checksum of its own code: a change of `judge` or `draw` never
    measures again.
    """

    id: ClassVar[str]
    source: ClassVar[Source]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    control: ClassVar[Mapping[str, Any]]
    cost: ClassVar[Mapping[str, float]] = {}
    """Seconds on two CPU cores, measured: {"quick": ..., "full": ...}; with "H200", those of full on one such GPU."""
    known_failures: ClassVar[Mapping[str, str]] = {}
    """Claims that do not reproduce: the claim's id, and the reason why it fails. "PRESET/ID" is for one preset only,
    "full/ID" for the full setting. The tests hold the list to be exact; a run whose verdicts differ from it exits with
    status 1."""
    card: ClassVar[str | tuple[str, int]] = ""
    """The panel on the experiment's card in the report: the name of a figure, for its first panel, or ("name", panel).
    By default the first panel of the first figure."""
    notes: ClassVar[str] = ""
    """Text shown beside the figures: the changes of each preset, and the choices made and their reasons."""

    precision: Literal["float32", "float64"] = "float32"
    """The precision of floating-point numbers while measuring."""

    @abstractmethod
    def measure(self, seed: int) -> xr.Dataset | xr.DataTree:
        """The measurement: labeled arrays, or a tree of them if several traces have coordinates of their own.

        Args:
            seed: Determines every random choice.
        """

    def predict(self, measured: Any) -> xr.Dataset | xr.DataTree | None:
        """The theory's prediction of the same variables; None if there is no theory.

        Args:
            measured: The result of `measure`, for the times and the starts (such as initial weights), nothing else.
        """
        return None

    @abstractmethod
    def reduce(self, measured: Any, predicted: Any) -> xr.Dataset | xr.DataTree:
        """The few numbers that are judged, drawn and swept, as labeled arrays; no thresholds.

        Args:
            measured: The result of `measure`.
            predicted: The result of `predict`.
        """

    @abstractmethod
    def judge(self, reduced: Any) -> Claims:
        """The claims, the main one first; mostly made by the functions of `lab.criteria`.

        Args:
            reduced: The result of `reduce`.
        """

    @abstractmethod
    def draw(self, measured: Any, predicted: Any, reduced: Any) -> Figures:
        """The figures by name, the main one first.

        Args:
            measured: The result of `measure`.
            predicted: The result of `predict`.
            reduced: The result of `reduce`.
        """

    def data_sets(self) -> tuple[str, ...]:
        """The names of the data sets that `measure` reads, as `dynascope data` lists them. Their checksums are part of
        the run's digest."""
        return ()

    @property
    def matmul_precision(self) -> str:
        """The precision of matrix products while measuring. "highest" is full float32; "default" (TF32 on a GPU) is
        several times as fast, for training that is not compared with theory."""
        return "highest"

    @classmethod
    def title(cls) -> str:
        """The question: the first line of the docstring."""
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0]


class Measurement(Fields, ABC):
    """A measurement that several experiments share, such as one training, defined by its fields."""

    @abstractmethod
    def measure(self, seed: int) -> xr.Dataset:
        """Run it, as `Experiment.measure`."""

    def data_sets(self) -> tuple[str, ...]:
        """The names of the data sets that `measure` reads."""
        return ()


class ComposedExperiment(Experiment):
    """An experiment on shared measurements. The lab takes each one from any stored run of the same system that has it
    (the same fields, seed, data and code), and measures it only if there is none (`lab.shared`)."""

    @abstractmethod
    def measurements(self) -> Mapping[str, Measurement]:
        """The measurements by name."""

    def measure(self, seed: int) -> xr.DataTree:
        """A tree with each of the measurements under its name."""
        import xarray as xr

        return xr.DataTree.from_dict({name: each.measure(seed) for name, each in self.measurements().items()})

    def data_sets(self) -> tuple[str, ...]:
        """The data sets of all measurements."""
        return tuple(dict.fromkeys(name for each in self.measurements().values() for name in each.data_sets()))


class OptionalExperiment(Experiment):
    """An experiment that needs more than the package carries: an optional dependency, or a file to fetch. If that is
    missing, patterns such as `*` leave the experiment out with a line that says so; its own name is refused."""

    @abstractmethod
    def missing(self) -> str:
        """One line that says what to install or to fetch; "" if nothing is missing."""


class BoundedExperiment(Experiment):
    """An experiment whose theory says where a claim stops being true: a line beside the limits that are found
    (`lab.limit_search`)."""

    @abstractmethod
    def predict_limits(self, claim: str, field: str) -> Iterable[float]:
        """The values of a field at which theory puts limits of a claim, the other fields being as they are.

        Args:
            claim: The id of a claim.
            field: The name of a field, or of an item of a list: `sigma.0`.

        Returns:
            The values, each at the same place whatever the other fields are, NaN if there is none; nothing if theory
            says nothing of them.
        """


class JoinableExperiment(Experiment):
    """An experiment whose trainings can be run apart, on other days or machines, and joined (`lab.join`)."""

    parts: ClassVar[tuple[str, ...]]
    """The fields that select the trainings: those in which the parts of one run may differ."""

    @abstractmethod
    def members(self, seed: int) -> Mapping[str, Any]:
        """The coordinates of the trainings, by dimension: along these the measurements of parts are joined."""
