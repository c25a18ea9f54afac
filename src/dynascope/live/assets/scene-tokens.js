// A sentence of the recall task: what attention looks at, and what the model then says.

import { svg } from "./dom.js";

const TOKENS = ["b", "trigger", "target", "c", "trigger", "noise", "a", "trigger", "?"];
const TARGET = 2, NOISE = 5, LAST = 7;
const VARIABLES = { target: "trained/seen_on_target", noise: "trained/seen_on_noise", correct: "trained/seen_correct", wrong: "trained/seen_noise" };

export function tokens(views, rowOf, group) {
  const found = Object.fromEntries(Object.entries(VARIABLES).map(([key, name]) => [key, views.get(name)]));
  if (!Object.values(found).every((view) => view?.size === 1)) return null;
  const now = Object.fromEntries(Object.entries(found).map(([key, view]) => [key, view.row(view.firstOf(group), rowOf(view))[0]]));
  if (Object.values(now).some(Number.isNaN)) return null;
  const x = (k) => 34 + 61 * k;
  const words = TOKENS.map((word, k) => svg("text", { x: x(k), y: 150, "text-anchor": "middle", class: k === TARGET || k === NOISE ? "figure small" : "label" }, word));
  const arc = (to, share, kind) => {
    const top = 132 - 0.24 * (x(LAST) - x(to));
    return svg("path", { d: `M${x(LAST)} 132Q${(x(LAST) + x(to)) / 2} ${top - 40} ${x(to)} 132`, class: `arc ${kind}`, "stroke-width": (1 + 11 * share).toFixed(2), "stroke-opacity": (0.15 + 0.85 * share).toFixed(3) });
  };
  const bar = (y, name, share, kind) => [svg("text", { x: 20, y: y + 13, class: "label" }, name), svg("rect", { x: 190, y, width: 320, height: 17, rx: 3, class: "edge" }),
    svg("rect", { x: 190, y, width: (320 * Math.min(1, Math.max(0, share))).toFixed(1), height: 17, rx: 3, class: `bar ${kind}` })];
  const percent = (share) => `${Math.round(100 * share)} %`;
  return {
    title: "What the model looks at, and says", look: "Arcs: attention from the last trigger. It must learn to look at targets after earlier triggers, and away from noise.",
    says: `Attention on targets ${percent(now.target)}, on noise ${percent(now.noise)}; it says the correct token with probability ${percent(now.correct)}.`,
    drawing: svg("svg", { viewBox: "0 0 560 290" }, arc(TARGET, now.target, "good"), arc(NOISE, now.noise, "bad"), words,
      bar(190, "says the target", now.correct, "good"), bar(222, "says the noise", now.wrong, "bad")),
  };
}
