// The first page: each system with a picture that moves where the phenomenon moves, and its other experiments below.

import { byId, fill, h, problem } from "./dom.js";
import { Miniature } from "./miniature.js";
import { Refinement } from "./refinement.js";
import { ask, pathOf } from "./server.js";
import { viewsOf } from "./views.js";

// The system, the experiment that stands for it, the variable of it that moves, and what happens.
const SYSTEMS = [
  ["concept", "concept.signal-order", "output", "Concepts are learned in the order of their signals, some after a detour of memorization."],
  ["edge", "edge.product", "factors", "Above 2/sharpness gradient descent oscillates, stays bounded, and ends in a flat minimum."],
  ["catapult", "catapult.single-example", "loss", "Above the critical rate the loss spikes, the tangent kernel shrinks, and training goes on."],
  ["features", "features.near-zero", "near_zero/test", "More catapults and smaller batches align the gradients with the directions of the target."],
  ["rank", "rank.weights", "product", "The rank of attention weights grows by one step after another."],
  ["recall", "recall.phases", "trained/seen_on_target", "Feed-forward layers learn an association in a few steps; attention learns to look back later."],
  ["linearity", "linearity.hessian-scaling", "", "Networks become linear in their weights as they grow, unless there is a bottleneck."],
  ["graphs", "graphs.pairs", "", "Fixed operators and an MLP tell graphs apart as well as message passing does, and nodes far less well."],
];
const ALONG = Array.from({ length: 60 }, (_, k) => 0.62 + k / 60);
const MINIMA = [ALONG, ALONG.map((x) => 1 / x)]; // of (xy - 1)²/2
const STEPS = "Choose a picture. Press Run, or turn a knob first: curves grow while the network trains, theory is dashed, and the claims turn green or red.";

export function welcome(experiments) {
  const known = new Map(experiments.map((one) => [one.id, one]));
  const cards = SYSTEMS.filter(([, lead]) => known.has(lead)).map(([prefix, lead, variable, happens]) => {
    const others = experiments.filter((one) => one.id.startsWith(`${prefix}.`) && one.id !== lead && one.picture);
    return card(known.get(lead), variable, happens, others);
  });
  fill(byId("head"), h("h1", {}, "Watch a network learn, beside what the mathematics predicts"), h("p", { class: "soft" }, STEPS), h("div", { class: "systems" }, cards));
}

function card(one, variable, happens, others) {
  const image = one.picture ? h("img", { src: `/assets/${one.picture}`, alt: `Figure of ${one.id}: ${one.title}`, loading: "lazy" }) : null;
  const plate = h("div", { class: "plate" }, image);
  if (one.moves && variable) moves(plate, one, variable).catch(problem);
  if (one.id === "graphs.pairs") refines(plate, one);
  return h("article", { class: "system-card", "data-system": one.id.split(".")[0] },
    h("a", { href: `#/run/${one.id}` }, plate, h("h2", {}, one.system), h("p", {}, happens), h("small", {}, one.title)),
    others.length ? h("div", { class: "strip", role: "list", "aria-label": `More experiments: ${one.system}` }, others.map(thumbnail)) : null);
}

const thumbnail = (one) => h("a", { href: `#/run/${one.id}`, role: "listitem", title: one.title },
  h("img", { src: `/assets/${one.picture}`, alt: one.title, loading: "lazy" }));

// A graph has no curve that grows: its colors are refined.
function refines(plate, one) {
  const canvas = h("canvas", { role: "img", "aria-label": `${one.system}, moving: the colors of a small graph are refined, round after round` });
  fill(plate, canvas);
  new Refinement(canvas);
}

// Put the moving picture over the still one.
async function moves(plate, one, variable) {
  const found = await ask(pathOf("showcase", one.id));
  const view = viewsOf(found.measured).get(variable);
  if (!view) return;
  const canvas = h("canvas", { role: "img", "aria-label": `${one.system}, moving: ${one.title}` });
  fill(plate, canvas);
  new Miniature(canvas, view, viewsOf(found.predicted).get(variable), one.id === "edge.product" ? MINIMA : undefined).start();
}
