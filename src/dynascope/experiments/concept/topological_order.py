"""Figure 7: combinations of concepts are learned in the order of the hierarchy, fewer concepts first."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from dynascope.curves import order, stages
from dynascope.experiments.concept.sim_experiment import PUBLISHED, SimExperiment
from dynascope.experiments.documents import CONCEPTS
from dynascope.figures import FAINT, INK, legend_beside, panels, settings_colors
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import above, below, share, within
from dynascope.lab.experiment import Claims, Figures, Source, Values

LEARNED = 1.0
"""The loss below which a combination counts as learned, and at which the figure cuts its colors off."""


class TopologicalOrder(SimExperiment):
    """Are combinations of concepts learned only after the simpler ones that they contain?"""

    id = "concept.topological-order"
    source = Source(CONCEPTS, "Figure 7, Appendix B")
    card = ("topological-order", 1)
    cost = {"quick": 8, "full": 35}
    presets = {
        "quick": {"epochs": 6},
        "code": PUBLISHED | {"depth": 1, "activation": "linear", "sigma": (0.7071,) * 4, "epochs": 6},
    }
    control = {"bias": True}
    known_failures = {
        "code/empty": "With biases f(0) is not 0: the empty combination has to be learned as the others are.",
        "code/levels-rise": "The bottom of the hierarchy is not the first to be learned, for the same reason.",
        "code/few-violations": "In the worst run and epoch a fifth of the pairs is out of order (a tenth on average), "
        "nearly all with the empty combination in them; over the limit in three of four seeds.",
    }
    notes = """The 16 test points of four concepts are ordered by inclusion: 65 pairs can be compared, 32 of them differ
    in one concept (the edges of the diagram). The loss is the squared error summed over coordinates. Without biases
    the empty combination, the input 0, has no loss at any time; with them (the control) f(0) is not 0 and the bottom of
    the hierarchy is no longer the first to be learned. Preset `code` is the run that the authors' published program
    lists first: one linear layer, not two with ReLU; σ = 0.5 read as a variance; biases; a cluster at the origin; test
    clusters instead of points. With its biases it fails at the bottom as the control does."""

    defaults = {"depth": 2, "activation": "relu"}

    mu: Values = (1.0, 2.0, 3.0, 4.0)
    sigma: Values = (0.5, 0.5, 0.5, 0.5)
    judged_epochs: tuple[int, ...] = (1, 3, 5)
    """Epochs at which the order is judged."""

    def measure(self, seed: int) -> xr.Dataset:
        def losses(bias: bool) -> xr.DataArray:
            trace = self.train([(self.mu, self.sigma)], seed, record=every, hierarchy=True, bias=bias)
            return 2 * trace.hierarchy_loss.isel(signal=0).transpose("seed", "step", "node")

        every = max(1, self.steps_per_epoch() // 12)
        if self.bias:
            return xr.Dataset({"loss": losses(True)})
        return xr.Dataset({"loss": losses(False), "biased_loss": losses(True)})

    def steps_per_epoch(self) -> int:
        return self.steps(len(self.mu)) // self.epochs

    def at_epochs(self, losses: xr.DataArray) -> xr.DataArray:
        """The losses at the judged epochs, (seed, epoch, node)."""
        epochs = [epoch for epoch in self.judged_epochs if epoch <= self.epochs]
        steps = [epoch * self.steps_per_epoch() for epoch in epochs]
        found = losses.sel(step=steps, method="nearest").drop_vars("step").rename(step="epoch")
        return found.assign_coords(epoch=epochs).transpose("seed", "epoch", "node")

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        nodes = order.hierarchy(len(self.mu))
        losses, levels = self.at_epochs(measured.loss), ("seed", "epoch", "level")
        curves = measured.loss.transpose("seed", "node", "step").values
        learned = stages.first_crossing(curves, LEARNED, measured.step.values, falling=True).time
        violated = order.violation_share(losses, order.comparable_pairs(nodes))
        table = {
            "level_mean": (levels, order.level_means(losses, nodes)),
            "violated": (levels[:2], violated),
            "in_order": ("seed", order.share_in_order(learned, order.cover_pairs(nodes))),
        }
        if "biased_loss" in measured:
            table["biased_level_mean"] = levels, order.level_means(self.at_epochs(measured.biased_loss), nodes)
        return xr.Dataset(table, {"epoch": losses.epoch})

    def judge(self, reduced: xr.Dataset) -> Claims:
        means, violated = reduced.level_mean, reduced.violated
        epochs = ", ".join(map(str, reduced.epoch.values))
        statement = f"At epochs {epochs} the mean loss rises with the number of concepts combined"
        yield share("levels-rise", statement, rises(means), 0.95)
        statement = "The empty combination is learned from the start: its loss"
        yield below("empty", statement, means.isel(level=0), 1e-9)
        statement = "Few of the comparable pairs are out of order: their share, at each of these epochs in every run"
        yield below("few-violations", statement, violated, 0.2, source="eq. (B.2)")
        statement = "(B.2) is a trend, not a rule: in most runs some pairs are out of order at one of these epochs"
        counter = share("not-exact", statement, violated.max("epoch") > 0, 0.5, shown={"pairs": violated.mean()})
        printed = "the order of the generalization in different test points strictly follow the component-wise order"
        yield erratum(counter, kind="error", printed=printed, at="Appendix B, eq. (B.2)")
        statement = f"A combination gets below a loss of {LEARNED:g} after those with one concept less: share of edges"
        yield above("simpler-first", statement, reduced.in_order, 0.8, source="Appendix B")
        if "biased_level_mean" in reduced:
            biased = reduced.biased_level_mean
            empty = biased.isel(level=0).median("seed")
            statement = "With biases the input 0 keeps a loss of its own (median over seeds)"
            yield within("biases", statement, empty, 0.2, 0.5)
            statement = "With biases the levels are out of order at the last of these epochs"
            yield share("biases-disorder", statement, ~rises(biased.isel(epoch=-1)), 0.5, source="Appendix B")

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        nodes = order.hierarchy(len(self.mu))
        losses = self.at_epochs(measured.loss).values[0]
        diagrams, (axes,) = panels(len(losses), size=(3.5, 3.9), squeeze=False)
        dots = [draw_hierarchy(panel, nodes, values) for panel, values in zip(axes, losses, strict=True)]
        for panel, epoch in zip(axes, reduced.epoch.values, strict=True):
            panel.set_title(f"Epoch {epoch}")
        axes[0].set_ylabel("concepts combined")
        diagrams.colorbar(dots[-1], ax=list(axes), label="loss, cut off at 1", shrink=0.7, pad=0.01)
        curves, (level, share) = panels(2)
        epochs = measured.step.values / self.steps_per_epoch()
        for name, label, style in (("loss", "as set", "-"), ("biased_loss", "with biases", "--")):
            if name not in measured:
                continue
            means = np.median(order.level_means(measured[name].values, nodes), axis=0)
            for k, color in enumerate(settings_colors(len(self.mu) + 1)):
                if means[:, k].any():
                    level.semilogy(epochs, means[:, k], style, color=color, linewidth=1.6 if style == "-" else 0.9)
            violated = order.violation_share(measured[name].values, order.comparable_pairs(nodes)).mean(axis=0)
            share.plot(epochs, violated, style, color="#00798c", label=label)
        for k, color in enumerate(settings_colors(len(self.mu) + 1)):
            level.plot([], [], color=color, label="1 concept" if k == 1 else f"{k} concepts")
        level.plot([], [], "--", color=INK, linewidth=0.9, label="with biases")
        level.set(xlabel="epoch", ylabel="mean loss (median over seeds)", title="Levels of the hierarchy")
        legend_beside(level)
        share.axhline(0.2, color=FAINT, linewidth=1)
        share.set(xlabel="epoch", ylabel="share of pairs out of order", title="Violations of (B.2)", ylim=(0, None))
        share.legend(loc="upper left", bbox_to_anchor=(0, 0.94))
        return {"topological-order": diagrams, "levels": curves}


def rises(means: xr.DataArray) -> xr.DataArray:
    """Whether the mean losses rise strictly with the level."""
    return (means.diff("level") > 0).all("level")


def draw_hierarchy(axes: Axes, nodes: np.ndarray, losses: np.ndarray) -> PathCollection:
    """The diagram of all combinations, the empty one at the bottom, each with the color of its loss."""
    level = nodes.sum(axis=1)
    x = np.empty(len(nodes))
    for k in range(nodes.shape[1] + 1):
        here = np.flatnonzero(level == k)[::-1]
        x[here] = np.arange(len(here)) - (len(here) - 1) / 2
    for u, v in order.cover_pairs(nodes):
        axes.plot(x[[u, v]], level[[u, v]], color=FAINT, linewidth=0.8, zorder=1)
    colors = np.minimum(losses, LEARNED)
    dots = axes.scatter(x, level, c=colors, cmap="viridis_r", vmin=0, vmax=LEARNED, s=230, zorder=2, edgecolors=INK)
    for place, height, node, color in zip(x, level, nodes, colors, strict=True):
        name = "".join(map(str, np.flatnonzero(node) + 1)) or "∅"
        ink = "white" if color > 0.55 * LEARNED else INK
        axes.text(place, height, name, ha="center", va="center", fontsize=6, color=ink, zorder=3)
    axes.set(xticks=[], yticks=range(nodes.shape[1] + 1))
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.margins(0.08)
    return dots
