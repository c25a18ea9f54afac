// What a newcomer sees: what to do, and a few experiments to begin with.

import { byId, fill, h } from "./dom.js";

// Of several systems, each a few seconds long, with curves that grow while it runs.
const FIRST = ["concept.signal-order", "edge.quasi-symmetric", "catapult.single-example", "rank.weights", "concept.training-trajectory", "features.near-zero"];
const STEPS = ["Choose an experiment: one of these, or any in the list.", "Turn its knobs and press Run. Curves grow while the network trains; theory is dashed.",
  "Read the verdicts, scrub through training time, lay other runs over it. Every run goes to the store."];

export function welcome(experiments) {
  const known = new Map(experiments.map((one) => [one.id, one]));
  const first = FIRST.map((id) => known.get(id)).filter(Boolean);
  fill(byId("head"), h("h1", {}, "Watch a network learn, beside what the mathematics predicts"),
    h("ol", { class: "steps" }, STEPS.map((text) => h("li", {}, text))),
    h("div", { class: "starters" }, first.map((one) => h("a", { href: `#/run/${one.id}` },
      h("b", {}, one.title), h("small", {}, [one.system, one.cost.quick ? `quick: ${one.cost.quick}` : ""].filter(Boolean).join(", "))))));
}
