"""Theorem B.3: at every minimum of a factorization the sharpest direction admits a stable oscillation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from pydantic import Field, PositiveInt

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.figures import FAINT, PALETTE, THEORY, panels, settings_colors
from dynascope.geometry.directional import as_vector, directional_derivatives, discriminant
from dynascope.geometry.hessian import dense_hessian
from dynascope.lab.criteria import above, agrees, below
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.factorization import Factorization, Factors
from dynascope.theory.edge.factorization import flattest_sharpness, line_orbit, top_direction

PRECISION = 1e-12


class FactorizationMinima(EdgeExperiment):
    """At a minimum of a matrix factorization, can gradient descent oscillate stably along the sharpest direction?"""

    id = "edge.factorization-minima"
    source = Source(SIMPLE_STRUCTURES, "Theorem B.3")
    cost = {"quick": 5, "full": 10}
    presets = {"quick": {"seeds": 20, "shapes": ((5, 5, 5), (4, 6, 3), (3, 4, 7))}}
    control = {"orthogonal": True}
    notes = """Random factors are a minimum of the factorization of their own product. Measured: the dense Hessian by
    automatic differentiation, its top eigenpair, the derivatives along it to order 4, and gradient descent restricted
    to its line. Predicted: Theorem B.3, from the singular vectors of the factors alone. Along the line the loss is
    exactly (at + bt²)²/2, the quartic of Theorem 3.3 shifted, which gives the orbit in closed form. The control makes
    the top inner singular vectors of the two factors orthogonal, against the condition of the theorem: the loss along
    the line is then a parabola, D = 0, and gradient descent diverges."""

    shapes: tuple[tuple[int, int, int], ...] = ((5, 5, 5), (4, 6, 3), (6, 3, 2), (3, 4, 7), (6, 6, 4))
    """(m, q, p): Y is m by p, Z is q by p."""
    seeds: PositiveInt = 50
    orthogonal: bool = False
    """Make the top right singular vectors of Y and Z orthogonal."""
    above: float = Field(0.02, gt=0)
    """ν = η f'' - 2 of the descent along the line."""
    line_steps: PositiveInt = 3000

    def measure(self, seed: int) -> xr.Dataset:
        random = np.random.default_rng(seed)
        each = [self._shape(shape, random) for shape in self.shapes]
        stacked = {name: np.stack([np.asarray(one[name]) for one in each]) for name in each[0]}
        last = {"line": ("iterate",), "derivatives": ("order",), "derivatives_predicted": ("order",)}
        names = [f"{m}×{p} · {p}×{q}" for m, q, p in self.shapes]
        return xr.Dataset(
            {name: (("shape", "seed", *last.get(name, ())), value) for name, value in stacked.items()},
            {"shape_name": ("shape", names)},
        )

    def _shape(self, shape: tuple[int, int, int], random: np.random.Generator) -> dict[str, Array]:
        def one(factors: Factors) -> dict[str, Array]:
            if self.orthogonal:
                factors = _with_orthogonal_tops(factors)
            task = Factorization(jnp.matmul(factors["Y"], factors["Z"].T, precision="highest"))
            theory = top_direction(factors)
            hessian = dense_hessian(task, factors)
            sizes, vectors = jnp.linalg.eigh(hessian)
            along = as_vector(theory.direction)
            image = jnp.matmul(hessian, along, precision="highest")
            angle = jnp.abs(jnp.matmul(vectors[:, -1], along, precision="highest"))
            both = jnp.stack([along, vectors[:, -1]])
            found, along_eigenvector = jax.vmap(lambda u: directional_derivatives(task, factors, u))(both)
            return {
                "sharpness": sizes[-1],
                "residual": jnp.linalg.norm(image - theory.sharpness * along) / theory.sharpness,
                "overlap": angle,
                "derivatives": found[2:],
                "D": discriminant(along_eigenvector),
                "line": self._descend(found, (2 + self.above) / found[2]),
                "flattest": flattest_sharpness(task.target),
                "balanced": jnp.linalg.eigvalsh(dense_hessian(task, _balanced(task.target)))[-1],
                "sharpness_predicted": theory.sharpness,
                "derivatives_predicted": jnp.stack([theory.second, theory.third, theory.fourth]),
                "D_predicted": theory.flip_quantity,
            }

        m, q, p = shape
        Y, Z = random.standard_normal((self.seeds, m, p)), random.standard_normal((self.seeds, q, p))
        return jax.jit(jax.vmap(one))({"Y": jnp.asarray(Y), "Z": jnp.asarray(Z)})

    def _descend(self, derivatives: Array, rate: Array) -> Array:
        """The last two iterates along the line, the lower first, in units of 6 f''/f3; the start is 0.01."""
        _, _, second, third, fourth = derivatives
        unit = 6 * second / jnp.where(jnp.abs(third) > 1e-9 * second, third, 1e-9 * second)

        def step(_: Array, t: Array) -> Array:
            return t - rate * (second * t + third / 2 * t**2 + fourth / 6 * t**3)

        last = jax.lax.fori_loop(0, self.line_steps, step, 0.01 * unit)
        pair = jnp.stack([last, step(jnp.zeros(()), last)]) / unit
        return jnp.sort(jnp.where(jnp.isfinite(pair), pair, jnp.nan))

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        f2, f3 = (measured.derivatives_predicted.isel(order=i) for i in (0, 1))
        small = np.sqrt(3 * f2**2 * self.above / measured.D_predicted) / np.abs(6 * f2 / f3)
        theorem = {name: measured[f"{name}_predicted"] for name in ("sharpness", "derivatives", "D")}
        return xr.Dataset({**theorem, "line": ("iterate", np.asarray(line_orbit(self.above))), "half_width": small})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        scale = predicted.sharpness
        units = xr.DataArray([1.0, 6.0, 12.0], dims="order") * scale.min() ** xr.DataArray([1, 0.5, 0], dims="order")
        return xr.Dataset(
            {
                "D": measured.D / scale,
                "eigenvalue_error": abs(measured.sharpness / scale - 1),
                "residual": measured.residual,
                "overlap": measured.overlap,
                "derivative_error": (abs(measured.derivatives - predicted.derivatives) / units).max(("shape", "seed")),
                "D_error": abs((measured.D - predicted.D) / scale).max(),
                "over_flattest": measured.sharpness / measured.flattest,
                "balanced_error": abs(measured.balanced / measured.flattest - 1),
                "line_distance": abs(measured.line - predicted.line).max("iterate", skipna=False),
                "width_ratio": measured.line.diff("iterate").isel(iterate=0) / 2 / predicted.half_width,
            },
            {"order": ["f''", "f3", "f4"]},
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "D = 3 f3² - f'' f4 > 0 along the top eigenvector, at every minimum of every shape: D/f''"
        yield above("oscillation-possible", statement, reduced.D, PRECISION)
        statement = "The top eigenpair is (s_z u_y v_zᵀ, s_y u_z v_yᵀ)/√(s_y² + s_z²), s_y² + s_z²: relative residual"
        error = np.maximum(reduced.residual, reduced.eigenvalue_error)
        yield below("eigenpair", statement, error, PRECISION, shown={"least overlap": reduced.overlap.min()})
        statement = "Along it f'' = |A|², f3 = 6⟨A, B⟩, f4 = 12 |B|²: errors over their scale"
        yield below("derivatives", statement, reduced.derivative_error, PRECISION)
        statement = "D = 96 s_y² s_z² c²/(s_y² + s_z²): largest error over f''"
        yield below("discriminant", statement, reduced.D_error, PRECISION)
        statement = "No minimum is flatter than 2 σ₁(C): sharpness over it"
        yield above("flattest", statement, reduced.over_flattest, 1 - PRECISION, source="Remark 3")
        statement = "The balanced minimizer, Y = U √Σ and Z = V √Σ with C = U Σ Vᵀ, has that sharpness: relative error"
        printed = "the flattest minima has sharpness as 2σ_1²"
        error = reduced.balanced_error
        yield below("flattest-attained", statement, error, PRECISION, source="Remark 3", printed=printed)
        statement = f"Gradient descent along the line at η f'' = {2 + self.above:g} ends on the orbit of the quartic"
        place = "Theorems 3.1, 3.3 and B.3"
        yield below("line-orbit", statement + ": distance", reduced.line_distance, 1e-9, source=place)
        statement = "Its half-width is √(3 f''² ν/D) to leading order: ratio"
        yield agrees("half-width", statement, reduced.width_ratio, 1.0, absolute=0.01, source=place)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (sharp, flip, line) = panels(3, size=(4.5, 3.9))
        colors = settings_colors(measured.sizes["shape"])
        for axes, name in ((sharp, "sharpness"), (flip, "D")):
            for row, color in enumerate(colors):
                style = {"markersize": 4, "markeredgewidth": 0, "alpha": 0.6, "color": color}
                label = str(measured.shape_name.values[row])
                axes.loglog(predicted[name][row], measured[name][row], "o", label=label, **style)
            ends = np.array([float(predicted[name].min()), float(predicted[name].max())])
            axes.plot(ends, ends, **THEORY)
        sharp.set(xlabel="s_y² + s_z², from the factors", ylabel="top eigenvalue of the Hessian", title="Sharpness")
        sharp.legend(title="Y · Zᵀ", loc="upper left", title_fontsize=8.5)
        flip.set(xlabel="96 s_y² s_z² c²/(s_y² + s_z²)", ylabel="3 f3² - f'' f4, by differentiation")
        flip.set_title("D along the top eigenvector")
        self._draw_line(line, measured, predicted)
        return {"factorization-minima": figure}

    def _draw_line(self, axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
        def loss(t: np.ndarray) -> np.ndarray:
            return (t + t**2) ** 2 / 2

        grid = np.linspace(-0.11, 0.09, 200)
        axes.plot(grid, loss(grid), color=PALETTE[1], label="the loss: (t + t²)²/2 at every minimum")
        axes.plot(grid, grid**2 / 2, color=FAINT, linewidth=1, label="its parabola")
        ends = measured.line.values.reshape(-1, 2)
        axes.plot(ends.T, loss(ends).T, "o-", color=PALETTE[0], markersize=7, linewidth=1)
        axes.plot([], [], "o-", color=PALETTE[0], label=f"where descent ends ({len(ends)} runs)")
        for index, end in enumerate(predicted.line.values):
            axes.plot([end, end], [0, 8e-4], **THEORY, zorder=4, label="" if index else "orbit of the quartic")
        axes.set(xlabel="distance along the eigenvector, in units of 6 f''/f3", ylabel="loss, scaled")
        axes.set_title(f"Descent on that line, η f'' = {2 + self.above:g}")
        axes.set_ylim(top=0.0085)
        axes.legend(loc="upper center")


def _balanced(target: Array) -> Factors:
    """The minimizer whose two factors have the same singular values."""
    left, sizes, right = jnp.linalg.svd(target, full_matrices=False)
    return {"Y": left * jnp.sqrt(sizes), "Z": right.T * jnp.sqrt(sizes)}


def _with_orthogonal_tops(factors: Factors) -> Factors:
    """Z turned from the right so that its top right singular vector is the second one of Y."""
    into = jnp.linalg.svd(factors["Y"], full_matrices=True)[2]
    out = jnp.linalg.svd(factors["Z"], full_matrices=True)[2]
    turn = jnp.matmul(out.T, jnp.roll(into, -1, axis=0), precision="highest")
    return {"Y": factors["Y"], "Z": jnp.matmul(factors["Z"], turn, precision="highest")}
