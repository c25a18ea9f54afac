// Two clusters, the corner that is held out, and a network whose outputs fill as it learns each concept.

import { number, svg } from "./dom.js";
import { groupColor } from "./colors.js";
import { groupNames } from "./legend.js";

const SIDE = 230, LEFT = 34, TOP = 14; // of the plane
const MOST_LAYERS = 4;

// The signals in the name of a setting: "μ = (0.5, 2)".
const numbers = (name) => name?.match(/μ = \(([^)]*)\)/)?.[1].split(",").map(Number);

// Behind the paths: the training clusters as dots, and the held-out corner of each setting as a star.
export function signalsOf(view, state) {
  const names = groupNames(view, state);
  const found = names.map(numbers);
  if (!found.every((mu) => mu?.length === 2)) return [];
  const marks = (points, marker, name) => ({ type: "scatter", mode: "markers", x: points.map((p) => p[0]), y: points.map((p) => p[1]), marker, name,
    hovertemplate: "%{x}, %{y}<extra>%{fullData.name}</extra>" });
  const clusters = found.flatMap(([one, two]) => [[one, 0], [0, two]]);
  const colors = found.map((_, k) => groupColor(k, names.length));
  return [marks(clusters, { size: 9, color: "rgba(128,128,128,.45)" }, "training cluster"),
    marks(found, { size: 13, symbol: "star-open", color: colors, line: { width: 1.5 } }, "held-out point")];
}

export function concepts(views, rowOf, group, state) {
  const view = views.get("output");
  if (view?.kind !== "path") return null;
  const mu = numbers(groupNames(view, state)[group]) ?? targets(view, group);
  const member = view.firstOf(group);
  const row = rowOf(view);
  const color = groupColor(group, Math.max(1, view.header.group_labels.length));
  const shares = [0, 1].map((k) => view.series(member, k, row + 1).map((value) => value / mu[k]));
  const now = shares.map((some) => some.at(-1));
  if (now.some(Number.isNaN)) return null;
  const says = `The output has ${now.map((share, k) => `${Math.round(100 * share)} % of concept ${k + 1}`).join(" and ")}.`;
  return {
    title: "The task and the network", says,
    look: "It trains on the two clusters. The star, both concepts at once, is never shown. The output for it moves, and fills the nodes on the right.",
    drawing: svg("svg", { viewBox: "0 0 560 290" }, plane(shares, color), network(now, mu, color, Number(state.fields?.depth) || 1)),
  };
}

// Without the signals in a name: where the path ends.
const targets = (view, group) => [0, 1].map((k) => view.series(view.firstOf(group), k, view.filled).at(-1) || 1);

const across = (share) => LEFT + SIDE * ((share + 0.25) / 1.5);
const down = (share) => TOP + SIDE * (1 - (share + 0.25) / 1.5);

function plane(shares, color) {
  const label = (x, y, text, anchor = "middle") => svg("text", { x, y, "text-anchor": anchor, class: "label" }, text);
  const cluster = (x, y) => Array.from({ length: 36 }, (_, k) => { // a sunflower: dense in the middle, the same in every frame
    const radius = 0.085 * Math.sqrt(k / 36), angle = 2.39996 * k;
    return svg("circle", { cx: across(x + radius * Math.cos(angle)), cy: down(y + radius * Math.sin(angle)), r: 1.7, class: "dot" });
  });
  const points = shares[0].map((share, k) => `${across(share).toFixed(1)},${down(shares[1][k]).toFixed(1)}`).join(" ");
  return svg("g", {},
    svg("path", { d: `M${across(0)} ${TOP}V${TOP + SIDE}M${LEFT} ${down(0)}H${LEFT + SIDE}`, class: "axis" }),
    cluster(1, 0), cluster(0, 1), label(across(1), down(-0.2), "cluster 1"), label(across(0) + 8, down(1.17), "cluster 2", "start"),
    svg("path", { d: star(across(1), down(1), 11), class: "star" }), label(across(1), down(1.13), "held out"),
    svg("polyline", { points, fill: "none", stroke: color, "stroke-width": 2 }),
    svg("circle", { cx: across(shares[0].at(-1)), cy: down(shares[1].at(-1)), r: 6, fill: color }),
    label(LEFT + SIDE / 2, TOP + SIDE + 22, "concept 1 in the output →"));
}

function star(x, y, size) {
  const corner = (k) => `${(x + (k % 2 ? 0.45 : 1) * size * Math.sin((Math.PI * k) / 5)).toFixed(1)} ${(y - (k % 2 ? 0.45 : 1) * size * Math.cos((Math.PI * k) / 5)).toFixed(1)}`;
  return `M${Array.from({ length: 10 }, (_, k) => corner(k)).join("L")}Z`;
}

// Layers of nodes; the output nodes are full when their concept is learned.
function network(now, mu, color, depth) {
  const layers = Math.min(depth, MOST_LAYERS) + 1;
  const x = (layer) => 320 + (layer * 170) / (layers - 1);
  const y = [92, 182];
  const edges = Array.from({ length: layers - 1 }, (_, layer) => y.flatMap((from) => y.map((to) => svg("path", { d: `M${x(layer)} ${from}L${x(layer + 1)} ${to}`, class: "edge" }))));
  const nodes = Array.from({ length: layers - 1 }, (_, layer) => y.map((at) => svg("circle", { cx: x(layer), cy: at, r: 13, class: layer ? "node" : "node full" })));
  const outputs = now.map((share, k) => {
    const height = 36 * Math.min(1, Math.max(0, share));
    const id = `fill-${k}`;
    return svg("g", {},
      svg("clipPath", { id }, svg("rect", { x: x(layers - 1) - 20, y: y[k] + 18 - height, width: 40, height })),
      svg("circle", { cx: x(layers - 1), cy: y[k], r: 18, class: "node" }),
      svg("circle", { cx: x(layers - 1), cy: y[k], r: 18, fill: color, "clip-path": `url(#${id})` }),
      svg("text", { x: x(layers - 1), y: y[k] + (k ? 38 : -28), "text-anchor": "middle", class: "label" }, `${number(Number((share * mu[k]).toPrecision(3)))} of ${number(mu[k])}`));
  });
  const caption = (at, text) => svg("text", { x: at, y: 252, "text-anchor": "middle", class: "label" }, text);
  return svg("g", {}, edges.flat(), nodes.flat(), outputs,
    caption(x(0), "input"), caption(x(layers - 1), "output"), layers > 2 ? caption((x(0) + x(layers - 1)) / 2, `${depth} layers`) : []);
}
