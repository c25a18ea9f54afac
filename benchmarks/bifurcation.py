"""Last iterates at 2,000 rates after 20,000 steps of gradient descent, beside the NumPy loop one would write."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import cpu_seconds, tell

RATES, STEPS, KEPT = 2_000, 20_000, 64


def by_numpy(rates: np.ndarray) -> np.ndarray:
    """x <- x - rate x (x² - 1), the quartic (x² - 1)²/4, for all rates at once; the last `KEPT` iterates."""
    x, kept = np.full(RATES, 0.5), []
    for step in range(STEPS + KEPT):
        if step >= STEPS:
            kept.append(x)
        x = x - rates * x * (x * x - 1)
    return np.stack(kept, axis=1)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    from dynascope.dynamics import bifurcation
    from dynascope.tasks.scalar_losses import quartic

    rates, loss = jnp.linspace(0.9, 1.5, RATES), quartic(1.0)

    def ours() -> np.ndarray:
        return np.asarray(bifurcation(loss.step, rates, 0.5, burn_in=STEPS, keep=KEPT).iterates)

    first = ours()  # compiles
    seconds, loop = cpu_seconds(ours), cpu_seconds(lambda: by_numpy(np.asarray(rates)))
    periodic = np.asarray(rates) < 1.2  # beyond, orbits are chaotic and rounding decides
    found, expected = (np.sort(orbit[periodic], axis=1) for orbit in (first, by_numpy(np.asarray(rates))))
    tell(
        f"bifurcation: {RATES:,} rates by {STEPS:,} steps, float64, one thread, CPU s",
        [
            {"tool": "dynascope", "s": round(seconds, 3), "times ours": 1.0},
            {"tool": "NumPy, vectorized over rates", "s": round(loop, 3), "times ours": round(loop / seconds, 1)},
        ],
    )
    print(
        f"  largest difference of the iterates, in order of size, while periodic: {np.abs(found - expected).max():.1e}"
    )


if __name__ == "__main__":
    main()
