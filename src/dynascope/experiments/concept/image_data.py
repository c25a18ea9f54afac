"""The pictures of the diffusion model, and the strength of the signals of their concepts."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from dynascope.experiments.documents import CONCEPTS
from dynascope.figures import PALETTE, THEORY, panels
from dynascope.lab.criteria import above, agrees, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.image_concepts import ImageConcepts
from dynascope.tasks.image_reading import read_concepts

SIDES = ("stronger color", "stronger size")
SHOWN = 6
"""Pictures of each class in a grid."""
GRID = 12
"""Points of the rule that averages over a center's coordinate, and over sizes."""
SCANNED = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
"""Color separations whose signals are measured, at the size separation of the second data set."""


class ImageData(Experiment):
    """Do separations of color and size set the signals of the two concepts in the pictures?"""

    id = "concept.image-data"
    source = Source(CONCEPTS, "Figure 19, Appendix G")
    cost = {"quick": 15, "full": 40}
    presets = {"quick": {"pictures": 256}}
    control = {"color_separations": (0.2, 0.2), "size_separations": (0.4, 0.4)}
    notes = """The signal of a concept is the distance between the mean pictures of two classes that differ in it alone.
    The theory of the color signal is exact: the separation, times the root mean square of the chance that the object
    covers a pixel. In the control both data sets have near colors: neither has the stronger color signal. The figure
    is Figure 15 of the other version."""

    color_separations: tuple[float, float] = (0.7, 0.2)
    """Color separation of the data set with the stronger color signal, and of that with the stronger size signal."""
    size_separations: tuple[float, float] = (0.2, 0.4)
    pixels: int = Field(32, ge=2, le=1024)
    pictures: int = Field(1024, ge=16)
    """Pictures of each class."""

    @model_validator(mode="after")
    def _separations_are_shares(self) -> ImageData:
        for color, size in zip(self.color_separations, self.size_separations, strict=True):
            ImageConcepts(color, size)
        return self

    def measure(self, seed: int) -> xr.Dataset:
        key = jax.random.key(seed)

        @eqx.filter_jit
        def look(color: jax.Array, size: jax.Array) -> tuple[jax.Array, ...]:
            process = ImageConcepts(color, size, pixels=self.pixels)
            values = np.repeat(process.classes, self.pictures, axis=0)
            scenes = process.scenes(key, values)
            images = process.render(jax.random.fold_in(key, 1), scenes)
            inside = (process.masks(scenes) > 0.99).astype(images.dtype)
            tint = jnp.einsum("nyx,nyxc->nc", inside, images, precision="highest")
            tint = tint / jnp.maximum(jnp.sum(inside, axis=(1, 2)), 1)[:, None]
            right = jnp.mean(
                read_concepts(images, process).values == jnp.asarray(values, images.dtype), axis=0, dtype=images.dtype
            )
            by_class = lambda array: array.reshape(4, self.pictures, *array.shape[1:])  # noqa: E731
            grid = jnp.round(255 * by_class(images)[:, :SHOWN]).astype(jnp.uint8)
            signal, _ = process.signals(jax.random.fold_in(key, 2), self.pictures)
            return grid, jnp.mean(by_class(tint), 1), jnp.mean(by_class(scenes.size), 1), right, signal

        def stacked(pairs: list[tuple[float, float]]) -> list[np.ndarray]:
            found = [
                look(jnp.asarray(color, self.precision), jnp.asarray(size, self.precision)) for color, size in pairs
            ]
            return [np.stack([np.asarray(part) for part in parts]) for parts in zip(*found, strict=True)]

        grid, tint, size, right, signal = stacked(list(zip(self.color_separations, self.size_separations, strict=True)))
        scan = stacked([(color, self.size_separations[1]) for color in SCANNED])[4]
        return xr.Dataset(
            {
                "grid": (("side", "class", "picture", "y", "x", "rgb"), grid),
                "tint": (("side", "class", "rgb"), tint),
                "size": (("side", "class"), size),
                "recognized": (("side", "concept"), right),
                "signal": (("side", "concept"), signal),
                "scan": (("separation", "concept"), scan),
            },
            {"side": list(SIDES), "concept": ["color", "size"], "separation": list(SCANNED)},
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The color signal from the chance that a big object covers each pixel, averaged over places and sizes."""
        process = ImageConcepts(0.5, self.size_separations[1], pixels=self.pixels)
        middle = (np.arange(GRID) + 0.5) / GRID * 2 - 1
        across, down, radius = (grid.ravel() for grid in np.meshgrid(middle, middle, middle, indexing="ij"))
        mean = process.mean_scenes(np.zeros((len(across), 2), int))
        size = mean.size + process.size_spread * process.size_separation * jnp.asarray(radius, mean.size.dtype)
        center = process.center * jnp.asarray(np.stack([across, down], 1), mean.size.dtype)
        cover = np.mean(np.asarray(process.masks(mean._replace(size=size, center=center))), axis=0)
        scale = np.sqrt(2 / 3 * np.mean(cover**2))  # two of three channels differ
        return xr.Dataset(
            {"scan": ("separation", scale * measured.separation.values)}, {"separation": measured.separation}
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        names = ["red big", "red small", "blue big", "blue small"]
        tint, size = (measured[name].assign_coords({"class": names}) for name in ("tint", "size"))
        return xr.Dataset(
            {
                "ratio": measured.signal.sel(concept="color", drop=True)
                / measured.signal.sel(concept="size", drop=True),
                "color_apart": (tint.sel({"class": "red big"}) - tint.sel({"class": "blue big"})).isel(
                    rgb=0, drop=True
                ),
                "size_apart": size.sel({"class": "red big"}) - size.sel({"class": "red small"}),
                "recognized": measured.recognized,
                "scan": measured.scan,
                "predicted_scan": predicted.scan,
            }
        ).drop_vars("class", errors="ignore")

    def judge(self, reduced: xr.Dataset) -> Claims:
        left, right = (reduced.ratio.sel(side=side) for side in SIDES)
        statement = "The color signal is the stronger one in the first data set, the size signal in the second"
        yield every("stronger-signal", statement, np.stack([left > 1, right < 1]))
        noise = 4 * max(self.color_separations) / 8 / np.sqrt(3) * np.sqrt(2 / self.pictures)
        statement = "The objects of two classes differ in color by the separation, to 4 standard errors"
        yield agrees("color-signal", statement, reduced.color_apart, np.asarray(self.color_separations), absolute=noise)
        noise = 4 * max(self.size_separations) * 3 / 8 / np.sqrt(3) * np.sqrt(2 / self.pictures)
        statement = "The objects of two classes differ in radius by the separation, to 4 standard errors"
        yield agrees("size-signal", statement, reduced.size_apart, np.asarray(self.size_separations), absolute=noise)
        statement = "The color signal in pixel space is the separation times the covered area's root mean square"
        color = reduced.scan.sel(concept="color")
        yield agrees("pixel-signal", statement, color, reduced.predicted_scan, relative=0.04)
        statement = "Both concepts can be read off the pixels without a classifier"
        yield above("readable", statement, reduced.recognized, 0.98)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(3, size=(4.0, 3.2), gridspec_kw={"width_ratios": [1, 1, 1.1]})
        for axis, side in zip(axes, SIDES, strict=False):
            rows = measured.grid.sel(side=side).values
            axis.imshow(np.concatenate([np.concatenate(list(row), axis=1) for row in rows], axis=0))
            axis.set(xticks=[], yticks=[(i + 0.5) * self.pixels for i in range(4)])
            axis.set_yticklabels(["red\nbig", "red\nsmall", "blue\nbig", "blue\nsmall"], fontsize=7)
            axis.grid(False)
            axis.set_title(side.capitalize())
        for name, color in zip(("color", "size"), PALETTE, strict=False):
            axes[2].plot(reduced.separation, reduced.scan.sel(concept=name), "o-", color=color, label=name)
        axes[2].plot(reduced.separation, reduced.predicted_scan, **THEORY, label="color, theory")
        axes[2].set(xlabel="separation of colors", ylabel="distance of mean pictures", title="Signals in pixel space")
        axes[2].legend()
        return {"image-data": figure}
