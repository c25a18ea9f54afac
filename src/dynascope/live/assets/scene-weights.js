// A network whose connections are as thick as its weights, for a trace that has them: a square matrix from inputs to outputs.

import { number, svg } from "./dom.js";

const TOP = 40, HEIGHT = 190, LEFT = 130, RIGHT = 430;
const THICKEST = 14;

export function weights(views, rowOf, group) {
  const found = [...views].find(([name, view]) => name.split("/").at(-1) === "W" && view.header.shape.length === 2 && view.header.shape[0] === view.header.shape[1]);
  if (!found) return null;
  const [, view] = found;
  const size = view.header.shape[0], member = view.firstOf(group);
  const now = view.row(member, rowOf(view));
  if (now.some(Number.isNaN)) return null;
  const most = Math.max(1, ...now.map(Math.abs));
  const y = (k) => TOP + (HEIGHT * (k + 0.5)) / size;
  const edges = Array.from(now, (weight, k) => svg("path", { d: `M${LEFT} ${y(k % size)}L${RIGHT} ${y(Math.floor(k / size))}`, class: `weight ${weight < 0 ? "bad" : "good"}`,
    "stroke-width": (0.5 + (THICKEST * Math.abs(weight)) / most).toFixed(2), "stroke-opacity": Math.min(1, 0.15 + Math.abs(weight) / most).toFixed(3) }));
  const node = (x, k, text, anchor, beside) => [svg("circle", { cx: x, cy: y(k), r: 15, class: "node" }), svg("text", { x: x + beside, y: y(k) + 5, "text-anchor": anchor, class: "label" }, text)];
  const inputs = Array.from({ length: size }, (_, k) => node(LEFT, k, `input ${k + 1}`, "end", -26));
  const outputs = Array.from({ length: size }, (_, k) => node(RIGHT, k, `${number(Number(now[k * (size + 1)].toPrecision(2)))} of concept ${k + 1}`, "start", 26));
  return {
    title: "The network and its weights", look: "Straight connections are the concepts. A crossing connection that appears and fades again is the detour.",
    says: `Weights by rows: ${Array.from(now, (weight) => number(Number(weight.toPrecision(2)))).join(", ")}.`,
    drawing: svg("svg", { viewBox: "0 0 580 270" }, edges, inputs.flat(), outputs.flat(), svg("text", { x: (LEFT + RIGHT) / 2, y: 258, "text-anchor": "middle", class: "label" }, `${view.header.axis} ${number(view.times[rowOf(view)])}`)),
  };
}
