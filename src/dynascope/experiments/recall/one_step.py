"""Theorem 4.1: after one gradient step the feed-forward map predicts the noise, and attention N times less."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from pydantic import Field, PositiveInt

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import agrees, below, share, within
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.models import OneLayerRecall
from dynascope.tasks import NoisyRecall
from dynascope.theory.recall.first_step import ENTRIES, deviation, exact_value_entries, value_entries
from dynascope.theory.recall.margins import first_margins, fluctuation

PARTS = ("feed-forward", "attention", "attention, current tokens")
"""The parts of the model whose margins are measured."""
MANY = ("τ,k", "j,τ", "j,q", "j,j", "j,k")
"""Kinds of entries with N or more members, so that a few draws determine their variance."""
DELTA = 0.05
"""The probability with which a draw may be outside of the bounds of Lemmas C.1 and C.2."""


class OneStep(Experiment):
    """Does one gradient step teach feed-forward weights the noise, and attention N times less of it?"""

    id = "recall.one-step"
    source = Source(SIMPLE_STRUCTURES, "Theorem 4.1, Lemmas C.1 and C.2, Table C.1")
    cost = {"quick": 10, "full": 31}
    presets = {"quick": {"tokens": 100, "length": 200, "draws": 100}}
    control = {"alpha": 0.01}
    notes = """The gradient of the one-layer model at zero is computed by automatic differentiation, for many draws of
    samples. Margins are per unit of the learning rate; those of the mean over all draws are compared with the
    theorem, and their spread over draws shows how many samples each part needs. In the control the noise token is as
    rare as any other, and there is nothing to learn."""

    tokens: Annotated[int, Field(ge=10, le=500)] = 200
    length: Annotated[int, Field(ge=10)] = 1000
    alpha: float = Field(0.3, gt=0, lt=1)
    samples: PositiveInt = 100
    """Contexts in one draw."""
    draws: Annotated[int, Field(ge=20)] = 200
    tests: PositiveInt = 20
    """Contexts on which margins are read."""

    def measure(self, seed: int) -> xr.Dataset:
        task = NoisyRecall.uniform(self.tokens, length=self.length, alpha=self.alpha)
        model, keys = OneLayerRecall(self.tokens + 1), jax.random.split(jax.random.key(seed), 2)
        kinds = jnp.asarray(_kinds(self.tokens))

        def draw(key: Any) -> tuple[Any, ...]:
            gradient = jax.grad(task.loss)(model, task.sample(key, self.samples))
            current = gradient.value[:, : self.tokens + 1]
            of_kinds = [kinds == kind for kind in range(len(ENTRIES))]
            means = jnp.stack([jnp.sum(jnp.where(here, current, 0)) for here in of_kinds])
            ends = jnp.stack(
                [
                    jnp.stack([jnp.min(current, where=here, initial=1), jnp.max(current, where=here, initial=-1)])
                    for here in of_kinds
                ]
            )
            return -gradient.feed, -gradient.value, (means, ends, gradient.feed[:, 0]), current**2

        @jax.jit
        def all_draws(keys: Any) -> tuple[Any, ...]:
            def add(total: Any, key: Any) -> tuple[Any, Any]:
                feed, value, seen, square = draw(key)
                total = jax.tree.map(jnp.add, total, (feed, value, square))
                return total, (_margins(feed, value, test), seen)

            blank = (jnp.zeros_like(model.feed), jnp.zeros_like(model.value), jnp.zeros((self.tokens + 1,) * 2))
            total, each = lax.scan(add, blank, keys)
            return jax.tree.map(lambda part: part / self.draws, total), each

        test = jax.vmap(model.inputs)(task.sample(keys[0], self.tests).tokens)
        (feed, value, square), (margins, (means, ends, on_trigger)) = all_draws(jax.random.split(keys[1], self.draws))
        variance = (np.asarray(square) - np.asarray(value)[:, : self.tokens + 1] ** 2) * self.draws / (self.draws - 1)
        counts = np.array([(np.asarray(kinds) == kind).sum() for kind in range(len(ENTRIES))])
        spread = [variance[np.asarray(kinds) == kind].mean() for kind in range(len(ENTRIES))]
        return xr.Dataset(
            {
                "margin": ("part", np.asarray(_margins(feed, value, test))),
                "draw_margin": (("draw", "part"), np.asarray(margins)),
                "entry_mean": (("draw", "entry"), np.asarray(means) / counts),
                "entry_variance": ("entry", np.array(spread) * self.samples),
                "entry_ends": (("draw", "entry", "end"), np.asarray(ends)),
                "on_trigger": (("draw", "token"), np.asarray(on_trigger)),
                "noise_share": float(np.asarray(test[:, :, self.tokens]).mean()),
            },
            {"part": list(PARTS), "entry": list(ENTRIES)},
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The theorem's margins, and the exact moments of the entries of W_V's gradient beside Table C.1."""
        share = float(measured.noise_share)
        both, current = (first_margins(self.tokens, self.alpha, share, previous) for previous in (True, False))
        exact = exact_value_entries(self.tokens, self.length, self.alpha, forced=True)
        printed = value_entries(self.tokens, self.length, self.alpha, printed=True)
        margins = [both.feed_forward, both.attention, current.attention]
        found = exact.rename(mean="entry_mean", variance="entry_variance")
        noise = np.arange(self.tokens + 1) == self.tokens
        b = (1 - self.alpha) / self.tokens
        spread = np.where(noise, self.alpha * (1 - self.alpha), b), np.where(noise, max(self.alpha, 1 - self.alpha), 1)
        feed = deviation(spread[0], spread[1], self.samples, self.tokens + 1, DELTA)
        bound = deviation(printed.variance.values, printed["range"].values, self.samples, (self.tokens + 1) ** 2, DELTA)
        return found.assign(
            margin=("part", margins),
            printed_variance=printed.variance,
            printed_mean=printed["mean"],
            entry_bound=("entry", bound),
            trigger_mean=("token", np.where(noise, -self.alpha, 1 / (self.tokens + 1) - b)),
            trigger_bound=("token", feed),
        ).assign_coords(part=measured.part)

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        mean = measured.entry_mean.mean("draw")
        error = measured.entry_mean.std("draw", ddof=1) / np.sqrt(self.draws)
        each = measured.draw_margin.sel(part=list(PARTS[:2])).rename(part="compared")
        spread = each.std("draw", ddof=1) / each.mean("draw")
        many = (measured.entry_variance / predicted[["entry_variance", "printed_variance"]]).sel(entry=list(MANY))
        many = many.rename(entry="kind")
        entries = np.abs(measured.entry_ends - predicted.printed_mean).max("end") / predicted.entry_bound
        trigger = np.abs(measured.on_trigger - predicted.trigger_mean) / predicted.trigger_bound
        logarithm = np.log(2 * (self.tokens + 1) / DELTA) / self.samples
        root = np.sqrt((1 / (self.length * self.tokens) + 1 / self.tokens**2) * logarithm)
        center = predicted.margin.values[[0, 2]]  # those of the theorem: attention on current tokens alone
        strays = np.abs(each - xr.DataArray(center, dims="compared"))
        return xr.Dataset(
            {
                "margin": measured.margin,
                "theorem": predicted.margin,
                "entry_error": np.abs(mean - predicted.entry_mean) / error,
                "variance_ratio": many.entry_variance,
                "printed_ratio": many.printed_variance,
                "spread": spread,
                "entry_stray": entries.max("entry"),
                "trigger_stray": trigger.max("token"),
                "margin_stray": strays / xr.DataArray([np.sqrt(logarithm), root + logarithm], dims="compared"),
                "bound_over_margin": (root + logarithm) / center[1],
                "correlation": xr.corr(each.isel(compared=0, drop=True), each.isel(compared=1, drop=True), "draw"),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        forward, both, current = (reduced.margin.sel(part=part) for part in PARTS)
        expected = reduced.theorem.sel(part=list(PARTS))
        samples = self.samples * self.draws
        tolerance = round(4 * fluctuation(self.alpha, samples) + 0.04, 3)
        statement = "After one step the feed-forward margin of the noise token is alpha"
        yield agrees("feed-forward", statement, forward, float(expected[0]), relative=tolerance)
        statement = "That of attention is smaller by N/2 (their ratio)"
        ratio = forward / both
        yield agrees("factor-n", statement, ratio, float(expected[0] / expected[1]), relative=0.1)
        statement = "On the current tokens alone, attention has the theorem's margin"
        yield agrees("attention", statement, current, float(expected[2]), relative=tolerance)
        statement = "The inputs of Eq. 4.2 hold each token twice, as the previous one too: for many samples, where the "
        statement += "bound tends to 0, the margin of attention is twice the theorem's (ratio to the theorem's)"
        twice = agrees("both-halves", statement, both / expected[2], 2, relative=tolerance)
        printed = r"\Delta(\xi_{attn}(x_{1:T})) - \frac{\eta_v}{N} \cdot \hat{\alpha}"
        yield erratum(twice, kind="error", printed=printed, at="Theorem 4.1")
        printed, most = r"With probability $1 - \delta$", f"in {1 - DELTA:.0%} of the draws of {self.samples} contexts"
        statement = f"All entries of W_F on the trigger are within the bound {most}"
        flags = reduced.trigger_stray <= 1
        yield share("trigger-bound", statement, flags, 1 - DELTA, source="Lemma C.1", printed=printed)
        statement = f"So are all entries of W_V, {most}"
        yield share("value-bound", statement, reduced.entry_stray <= 1, 1 - DELTA, source="Lemma C.2", printed=printed)
        statement = f"Both margins are within the bounds of the theorem, with 1 for the constant of O, {most}"
        flags = (reduced.margin_stray <= 1).all("compared")
        yield share("margin-bounds", statement, flags, 1 - DELTA, source="Theorem 4.1", printed=printed)
        statement = "Means of the entries of W_V's gradient are the exact ones (all ten kinds, in standard errors)"
        yield below("entry-means", statement, reduced.entry_error, 4.5, source="Table C.1")
        statement = "and so are the variances of the kinds with N entries or more (ratio)"
        yield within("entry-variances", statement, reduced.variance_ratio, 0.8, 1.25, source="Table C.1")
        statement = f"With {self.samples} samples of {self.length} tokens, where the theorem's bound is many times the "
        statement += "margin of attention, both margins have the same relative spread, since both follow the share of "
        statement += "noise among the labels; the attention gradient is smaller, not noisier (correlation of the two)"
        shown = {"spread": reduced.spread.values, "bound over margin": float(reduced.bound_over_margin)}
        same = within("same-samples", statement, reduced.correlation, 0.9, 1, shown=shown)
        printed = "the attention gradient, which is dominated by noise unless the sample size is very large"
        yield erratum(same, kind="error", printed=printed, at="Section 4.4.1")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (cloud, entries) = panels(2)
        each = measured.draw_margin
        cloud.plot(
            each[:, 0], self.tokens * each[:, 1], "o", color=FAINT, markersize=4, label=f"{self.samples} contexts"
        )
        cloud.plot([0, self.alpha], [0, 2 * self.alpha], label="theory (both halves)", **THEORY)
        cloud.plot(
            reduced.margin[0], self.tokens * reduced.margin[1], "*", color=PALETTE[0], markersize=14, label="all draws"
        )
        cloud.set(xlabel="feed-forward margin", ylabel="N times the margin of attention", title="One step, many draws")
        cloud.set_xlim(left=0)
        cloud.set_ylim(bottom=0)
        cloud.legend()
        place = np.arange(len(MANY))
        entries.axhline(1, color=INK, linewidth=0.8)
        entries.bar(place - 0.18, reduced.variance_ratio, 0.34, color=PALETTE[1], label="over the exact one")
        entries.bar(place + 0.18, reduced.printed_ratio, 0.34, color=PALETTE[2], label="over Table C.1 as printed")
        entries.set_xticks(place, [f"({kind})" for kind in MANY])
        entries.set(xlabel="entry of W_V's gradient", title="Measured variance", ylim=(0, 1.4))
        entries.legend()
        return {"one-step": figure}


def _kinds(tokens: int) -> np.ndarray:
    """The kind in `ENTRIES` of each entry (predicted token, attended token); the trigger is 0, noise the last."""
    found = np.full((tokens + 1, tokens + 1), ENTRIES.index("j,k"))
    found[np.arange(tokens), np.arange(tokens)] = ENTRIES.index("j,j")
    found[:, 0], found[:, -1] = ENTRIES.index("j,q"), ENTRIES.index("j,τ")
    found[0], found[0, 0], found[0, -1] = (ENTRIES.index(kind) for kind in ("q,k", "q,q", "q,τ"))
    found[-1], found[-1, 0], found[-1, -1] = (ENTRIES.index(kind) for kind in ("τ,k", "τ,q", "τ,τ"))
    return found


def _margins(feed: Any, value: Any, test: Any) -> Any:
    """The margins (3,) of the feed-forward map, of attention, and of attention on current tokens; means over tests."""
    middle, half = test.mean(1), value.shape[1] // 2
    logits = [test[:, -1] @ feed.T, middle @ value.T, middle[:, :half] @ value[:, :half].T]
    return jnp.stack([jnp.mean(each[:, -1] - jnp.max(each[:, :-1], axis=1)) for each in logits])
