"""Appendix C and Section 4.4.4: lemmas, bounds and hand-built weights, each against exactly computed numbers."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.compilation import jit_once
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.figures import INK, PALETTE, THEORY, panels
from dynascope.lab.criteria import above, agrees, below, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks import NoisyRecall
from dynascope.theory.recall import counts, linear_memory, noise_logit, phases
from dynascope.theory.recall.contexts import contexts
from dynascope.theory.recall.gradient_lemma import sample_gradient
from dynascope.theory.recall.hand_built import HandBuilt, hand_built

ALPHAS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.39)
LATE = np.geomspace(1e4, 1e8, 9)
"""Times at which the flow of the memory is late."""
MANY = 10
"""Number of inputs of the memory for which the noise level decides when the noise direction is the weakest."""
EARLY = np.geomspace(0.1, 1e4, 41)
"""Times at which that memory is evaluated."""
SIZES = (10, 65, 1000)
PAST = 1.05
"""A rate just above the bound, over it."""


class RecallLemmas(Experiment):
    """Do the lemmas behind the theory of association and recall hold?"""

    id = "recall.lemmas"
    source = Source(SIMPLE_STRUCTURES, "Lemmas C.5-C.10, C.12, C.13, Remark 8, Section 4.4.4, (4.6), Section 4.4.3")
    cost = {"quick": 6, "full": 8}
    presets = {"quick": {}}
    control = {"tokens": 5, "length": 10}
    notes = """No training: moments of the chain, gradient flow of the memory, a recursion and hand-built weights, all
    exact. Lemmas C.5 to C.10 are for many tokens and long contexts; the control has few tokens and short ones. Lemma
    C.4, which does not hold as printed, is in recall.errata; the bounds of Lemmas C.1 and C.2 are in
    recall.one-step."""

    defaults = {"precision": "float64"}

    tokens: Annotated[int, Field(ge=3, le=2000)] = 400
    length: Annotated[int, Field(ge=4)] = 4000
    alpha: float = Field(0.3, gt=0, lt=0.5)

    def measure(self, seed: int) -> xr.Dataset:
        exact = counts.exact_counts(self.tokens, self.length, self.alpha)
        logits = [[self._logits(a, n, over) for n in SIZES] for a in ALPHAS for over in (1.0, PAST)]
        above_end = np.array(logits).max(-1).reshape(len(ALPHAS), 2, len(SIZES))
        flows = [linear_memory.memory_flow(2, alpha, LATE) for alpha in ALPHAS]
        many = [linear_memory.memory_flow(MANY, alpha, EARLY) for alpha in ALPHAS]
        row = phases.value_step(contexts(80, 8000, self.alpha), 1 / 81)[80, :81] * 80 / (self.alpha - 1 / 81)
        return xr.Dataset(
            {
                "mean": ("case", exact["mean"].values),
                "square": ("case", exact.square.values),
                "over": (("alpha", "rate", "size"), above_end),
                "memory_noise": (("alpha", "time"), [each.noisy.values for each in flows]),
                "pure_noise": (("alpha", "time"), [each.pure_noisy.values for each in flows]),
                "weakest": (("alpha", "time"), [(each["noise"] < each.memory).values for each in flows]),
                "many_weakest": (("alpha", "early"), [(each["noise"] < each.memory).values for each in many]),
                "noise_row": ("entry", [row[1:80].mean(), row[80]]),
                "series": (("sum", "side"), [_series(a, n) for a in (-0.9, 0.5, 0.99, 1.02) for n in (1, 7, 200)]),
                "gradient_error": _gradient_error(seed),
                "built": ("part", self._built(seed)),
            },
            {
                "alpha": list(ALPHAS),
                "rate": ["at the bound", "above"],
                "size": list(SIZES),
                "time": LATE,
                "early": EARLY,
            }
            | {"part": ["target", "noise", "target, map dropped"], "entry": ["token", "noise"]},
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The leading order of the lemmas."""
        return counts.leading_counts(self.tokens, self.length, self.alpha, printed=True)

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        slopes = np.polyfit(np.log(LATE), np.log(measured.pure_noise.values.T), 1)[0]
        moments = xr.concat([measured[name] / predicted[name] for name in ("mean", "square")], "moment")
        return measured.assign(
            ratio=moments.assign_coords(case=list(counts.LEMMAS), moment=["mean", "square"]),
            slope=("alpha", slopes),
        ).drop_vars(["mean", "square"])

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "Both moments of the counts of tokens are those of Lemmas C.5 to C.10 (ratio)"
        ratio = reduced.ratio.sel(case=list(counts.LEMMAS[1:]))
        yield agrees("counts", statement, ratio, 1, relative=0.03, source="Lemmas C.5-C.10")
        statement = "So is the mean of Lemma C.4 (ratio)"
        mean = reduced.ratio.sel(case="C.4", moment="mean")
        yield agrees("trigger-mean", statement, mean, 1, relative=0.03, source="Lemma C.4")
        statement = "The gradient of a linear map under a softmax is the sum of outer products (largest difference)"
        yield below("gradient", statement, reduced.gradient_error, 1e-12, source="Lemma C.12")
        statement = "The sum of t a^t is the printed one (both sides)"
        left, right = reduced.series.isel(side=0), reduced.series.isel(side=1)
        yield agrees("series", statement, left, right, relative=1e-10, source="Lemma C.13")
        printed = r"\eta \leq \frac{1}{\alpha(1-\alpha)}"
        statement = "Up to this rate the logit of the noise does not cross its fixed point (the most it is above it)"
        over = reduced.over.sel(rate="at the bound")
        yield below("rate-bound", statement, over, 1e-9, source="Section 4.4.4.3", printed=printed)
        statement = f"At {PAST:g} times it, it does (the most it is above it, over token numbers)"
        yield above("rate-bound-is-tight", statement, reduced.over.sel(rate="above"), 0, source="Section 4.4.4.3")
        statement = "A step of W_V has c on all tokens and alpha c on the noise (entries over c)"
        wanted = xr.DataArray([1, self.alpha], dims="entry")
        yield agrees("noise-row", statement, reduced.noise_row, wanted, relative=0.03, source="(4.6)")
        statement = "The weights by hand give the target 1 - alpha and the noise alpha, and without F_2 the target all "
        statement += "(medians over contexts)"
        wanted = xr.DataArray([1 - self.alpha, self.alpha, 1], dims="part")
        yield agrees("hand-built", statement, reduced.built, wanted, absolute=2e-3, source="Section 4.4.4.2")
        printed = "any value $\\alpha \\in (0, 0.4)$ still has the same result"
        statement = "Theorem 4.3 holds for these alpha: the memory predicts the noise with alpha (difference)"
        off = np.abs(reduced.memory_noise.isel(time=-1) - reduced.alpha)
        yield below("any-alpha", statement, off, 1e-3, source="Remark 8", printed=printed)
        statement = "and at rank 1 the probability of noise falls like t^(-1/2) (slope)"
        yield agrees(
            "any-alpha-slope", statement, reduced.slope, -0.5, absolute=0.02, source="Remark 8", printed=printed
        )
        statement = "since the noise direction is the weaker of the two"
        yield every("any-alpha-weakest", statement, reduced.weakest, source="Remark 8")
        printed = r"$\alpha$ decides whether the low-rank subspace corresponds to the smallest singular values"
        statement = f"With {MANY} inputs there are times at which the noise direction is the weakest for some noise "
        statement += "levels and not for others (share of the times)"
        weakest = reduced.many_weakest
        both = weakest.any("alpha") & ~weakest.all("alpha")
        yield above("alpha-decides", statement, both.mean(), 0, source="Section 4.4.3, iii", printed=printed)
        statement = "In the end it is not, for any of them: the noise level sets only the time"
        yield every("not-weakest-in-the-end", statement, ~weakest.isel(early=-1), source="Section 4.4.3, iii")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (moments, rates, flows) = panels(3)
        place = np.arange(reduced.sizes["case"])
        for shift, name, color in ((-0.2, "mean", PALETTE[1]), (0.2, "square", PALETTE[2])):
            moments.bar(place + shift, reduced.ratio.sel(moment=name), 0.38, color=color, label=name)
        moments.axhline(1, color=INK, linewidth=0.8)
        moments.set_xticks(place, list(counts.LEMMAS), fontsize=8)
        moments.set(xlabel="lemma", title="Exact moment over the printed one", ylim=(0, 1.4))
        moments.legend(ncols=2)
        for name, color in (("at the bound", PALETTE[1]), ("above", PALETTE[0])):
            label = name if name == "at the bound" else f"{PAST:g} times it"
            rates.plot(reduced.alpha, reduced.over.sel(rate=name).max("size"), "o-", color=color, label=label)
        rates.axhline(0, color=INK, linewidth=0.8)
        rates.set(xlabel="noise level α", ylabel="most above the fixed point", title="Logit of the noise, by rate")
        rates.legend()
        for alpha, color in ((ALPHAS[0], PALETTE[0]), (ALPHAS[4], PALETTE[1]), (ALPHAS[-1], PALETTE[2])):
            flows.plot(reduced.time, reduced.pure_noise.sel(alpha=alpha), "o-", color=color, label=f"α = {alpha:g}")
        flows.plot(reduced.time, reduced.time**-0.5, label="t^(-1/2)", **THEORY)
        flows.set(xscale="log", yscale="log", xlabel="time", ylabel="P(noise) at rank 1", title="Two inputs, late")
        flows.legend()
        return {"lemmas": figure}

    def _logits(self, alpha: float, size: int, over: float) -> np.ndarray:
        """The logit of the noise less its fixed point, from step 1 on, at `over` times the bound of its rate."""
        rate = over * noise_logit.largest_rate(alpha)
        return noise_logit.noise_logits(size, alpha, rate, 2000)[1:] - noise_logit.noise_fixed_point(size, alpha)

    def _built(self, seed: int) -> np.ndarray:
        """Medians over contexts: the probabilities of the target and of the noise, and of the target without F_2."""
        size, length = 20, 60
        weights = hand_built(size, length, self.alpha)
        task = NoisyRecall.uniform(size, length=length, alpha=self.alpha)
        batch = jit_once(lambda key: task.sample(key, 41))(jax.random.key(seed))
        found = []
        for tokens, target in zip(np.asarray(batch.tokens), np.asarray(batch.target).tolist(), strict=True):
            whole, dropped = (_last(weights, tokens, drop) for drop in (False, True))
            found.append([whole[target], whole[size], dropped[target]])
        return np.median(found, axis=0)


def _last(weights: HandBuilt, tokens: np.ndarray, drop: bool) -> np.ndarray:
    """The probabilities after the last position of the two-layer transformer with these weights."""
    x = weights.embedding[tokens] + weights.positions
    for scores, values in (
        (weights.first_scores, weights.first_values),
        (weights.second_scores, weights.second_values),
    ):
        logits = np.where(np.tri(len(x), dtype=bool), x @ scores @ x.T, -np.inf)
        x = x + _softmax(logits) @ x @ values.T
    x = x if drop else x + x @ weights.feed_forward.T
    return _softmax(weights.unembedding @ x[-1])


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _series(ratio: float, terms: int) -> list[float]:
    """sum of t a^t, added up and by Lemma C.13."""
    t = np.arange(1, terms + 1)
    return [float(np.sum(t * ratio**t)), counts.weighted_series(ratio, terms)]


def _gradient_error(seed: int) -> float:
    """The largest difference of the gradient of Lemma C.12 from the one by automatic differentiation."""

    def draw(key: Any) -> tuple[Any, ...]:
        keys = jax.random.split(key, 4)
        shapes = (6, 5), (5, 4), (20, 4)
        readout, weights, inputs = (
            jax.random.normal(key, shape, float) for key, shape in zip(keys, shapes, strict=False)
        )
        labels = jax.random.randint(keys[3], (20,), 0, 6, jnp.int32)

        def loss(w: Any) -> Any:
            log = jax.nn.log_softmax(inputs @ w.T @ readout.T)
            return -jnp.mean(jnp.take_along_axis(log, labels[:, None], axis=1))

        predicted = jax.nn.softmax(inputs @ weights.T @ readout.T)
        return jax.grad(loss)(weights), readout, predicted, labels, inputs

    gradient, *given = (np.asarray(each) for each in jit_once(draw)(jax.random.key(seed)))
    return float(np.abs(gradient - sample_gradient(*given)).max())
