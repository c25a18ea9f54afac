"""Random starts of the two-factor product, to test every identity and bound of Theorem 3.4 and Lemma B.2."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from jaxtyping import Array, Float

from dynascope.curves import orbits
from dynascope.experiments.edge.rate_scans import run_at_rates
from dynascope.tasks.products import two_factors
from dynascope.theory.edge import product_orbit, quartic_orbit

KEPT, STEPS, EXPONENT_STEPS = 800, 3000, 2000
LARGE_K = 1.9
"""The rate of Remark 5."""
FINE = 1e-11
"""Imbalances below this are not tested: rounding dominates."""
IDENTITIES = ("gap_error", "product_error", "squares_error")


def draw_starts(seed: int, count: int) -> np.ndarray:
    """Positive (x, y): the product uniform in 0.05 to 1.6, the logarithm of the ratio uniform up to 1."""
    rng = np.random.default_rng(seed)
    product, ratio = rng.uniform(0.05, 1.6, count), np.exp(rng.uniform(-1, 1, count))
    return np.stack([np.sqrt(product * ratio), np.sqrt(product / ratio)], axis=-1)


@jax.jit
def _follow(starts: Float[Array, "start 2"], K: Float[Array, ""]) -> dict[str, Array]:
    """Run all starts and count violations of each statement; every entry has one number for each start."""
    task = two_factors()
    zero = jnp.zeros(starts.shape[0])
    names = ("rises", "above", "below", "pairs", *IDENTITIES)
    begun = dict.fromkeys(names, zero) | {"positive": zero > -1, "last_above": jnp.full_like(zero, jnp.inf)}

    def step(_: Array, carry: tuple[Array, dict[str, Array]]) -> tuple[Array, dict[str, Array]]:
        here, seen = carry
        there = task.step(here, K)
        x, y = here[:, 0], here[:, 1]
        gap, above = jnp.abs(y - x), x * y > 1
        exact, bounds = product_orbit.successor(x, y, 1.0, K), product_orbit.contraction(here, 1.0, K)
        judged = above & (gap > FINE)
        found = dict(seen)
        found["rises"] = seen["rises"] + jnp.where(judged & (gap >= seen["last_above"]), 1.0, 0.0)
        found["above"] = seen["above"] + jnp.where(judged & (bounds.ratio >= bounds.upper), 1.0, 0.0)
        found["below"] = seen["below"] + jnp.where(judged & (bounds.ratio <= bounds.lower), 1.0, 0.0)
        found["pairs"] = seen["pairs"] + jnp.where(judged, 1.0, 0.0)
        found["last_above"] = jnp.where(above, gap, seen["last_above"])
        errors = {
            "gap_error": there[:, 1] - there[:, 0] - exact.gap,
            "product_error": there[:, 0] * there[:, 1] - exact.product,
            "squares_error": there[:, 0] ** 2 - there[:, 1] ** 2 - exact.difference_of_squares,
        }
        found |= {name: jnp.maximum(seen[name], jnp.abs(error)) for name, error in errors.items()}
        found["positive"] = seen["positive"] & jnp.all(there > 0, axis=-1)
        return there, found

    end, seen = lax.fori_loop(0, STEPS, step, (starts, begun))
    points = jnp.stack(quartic_orbit.normalized_orbit(K))
    off = jnp.min(jnp.abs(end[:, :1] - points), axis=-1)
    return seen | {"last_gap": jnp.abs(end[:, 1] - end[:, 0]), "orbit_error": off}


def follow_random_starts(seed: int, draws: int, sweep: Sequence[float]) -> xr.Dataset:
    """For each K: the violations of each statement among the starts that stay positive (at most 800)."""
    starts, rows = draw_starts(seed, draws), []
    for K in sweep:
        positive = np.asarray(_stays_positive(jnp.asarray(starts), jnp.asarray(K)))
        chosen = np.resize(starts[positive][:KEPT], (KEPT, 2))  # repeated if there are fewer: one shape for all
        distinct = min(KEPT, int(positive.sum()))
        found = {
            name: np.asarray(value)[:distinct] for name, value in _follow(jnp.asarray(chosen), jnp.asarray(K)).items()
        }
        names = (*IDENTITIES, "last_gap", "orbit_error")
        largest = {name: np.max(found[name]) if distinct else np.nan for name in names}
        counts = {name: np.sum(found[name]) for name in ("rises", "above", "below", "pairs")}
        rows.append(largest | counts | {"kept_starts": distinct})
    table = {name: ("K", np.array([row[name] for row in rows], float)) for name in rows[0]}
    identities = np.stack([table.pop(name)[1] for name in IDENTITIES], axis=-1)
    rates = np.array([1.05, 1.1, 1.2])
    late = np.arange(EXPONENT_STEPS // 2, EXPONENT_STEPS)
    balanced = run_at_rates(quartic_orbit.step, 0.8, rates, EXPONENT_STEPS, record=late).state.values
    exponents = orbits.transverse_exponent(1 + rates[:, None] * (balanced**2 - 1))
    return xr.Dataset(
        table | {"identity_errors": ("identity", identities.max(axis=0)), "exponent": ("K_rate", exponents)},
        {"K": list(sweep), "K_rate": rates, "identity": ["gap", "product", "squares"]},
    )


@jax.jit
def _stays_positive(starts: Float[Array, "start 2"], K: Float[Array, ""]) -> Array:
    task = two_factors()

    def step(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        there = task.step(carry[0], K)
        return there, carry[1] & jnp.all(there > 0, axis=-1)

    return lax.fori_loop(0, 300, step, (starts, jnp.ones(starts.shape[0], bool)))[1]


def positivity_cases(seed: int, draws: int) -> xr.Dataset:
    """The number of random starts that Lemma B.2 admits, and the number of these that become negative."""
    rng = np.random.default_rng(seed + 1)
    gap, product = rng.uniform(0, 0.6, draws), rng.uniform(1, 1.6, draws)
    middle = np.sqrt(product + gap**2 / 4)
    starts = jnp.asarray(np.stack([middle - gap / 2, middle + gap / 2], axis=-1))
    admitted = negative = 0
    for K in (1.01, 1.05, 1.1, 1.2, 1.3, 1.4, 1.49):
        sure = np.asarray(product_orbit.positivity(starts, 1.0, jnp.asarray(K)).sure)
        admitted += int(sure.sum())
        negative += int((sure & ~np.asarray(_stays_positive(starts, jnp.asarray(K)))).sum())
    return xr.Dataset({"admitted": admitted, "turned_negative": negative})


def unbalanced_ends(seed: int, draws: int) -> xr.Dataset:
    """Remark 5 at `LARGE_K`: the number of random starts in a square that stay finite, and the number of these that end
    with |x| and |y| apart; and of the unbalanced orbit in closed form, its `swap_error` and the sizes of its
    multipliers."""
    task = two_factors()
    starts = jnp.asarray(np.random.default_rng(seed + 2).uniform(0, 2.2, (draws, 2)))
    ends = jax.jit(lambda at: lax.fori_loop(0, STEPS, lambda _, here: task.step(here, LARGE_K), at))(starts)
    finite = jnp.all(jnp.abs(ends) < 10, axis=-1)
    apart = jnp.abs(jnp.abs(ends[:, 0]) - jnp.abs(ends[:, 1])) > 1e-6

    def two_steps(here: Array) -> Array:
        return task.step(task.step(here, LARGE_K), LARGE_K)

    point = product_orbit.swapping_point(LARGE_K)
    returned = jnp.matmul(jax.jacfwd(two_steps)(point[::-1]), jax.jacfwd(two_steps)(point), precision="highest")
    return xr.Dataset(
        {
            "finite_starts": int(finite.sum()),
            "unbalanced": int((finite & apart).sum()),
            "swap_error": float(jnp.max(jnp.abs(two_steps(point) - point[::-1]))),
            "swap_multiplier": ("direction", np.sort(np.abs(np.linalg.eigvals(np.asarray(returned))))),
        }
    )
