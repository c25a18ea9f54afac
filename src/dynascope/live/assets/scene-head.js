// The product of an attention head's key and query matrices, which is diagonal: its entries light up one after another.

import { number, svg } from "./dom.js";

const SIDE = 250;
const SEEN = 0.1; // of the largest entry there is: an entry that counts for the rank

export function head(views, rowOf, group) {
  const view = views.get("product");
  if (view?.kind !== "profile") return null;
  const member = view.firstOf(group);
  const now = view.row(member, rowOf(view)).map(Math.abs);
  const most = Math.max(...view.row(member, Math.max(0, view.filled - 1)).map(Math.abs), ...now.filter(Number.isFinite), 1e-9);
  const size = now.length, cell = SIDE / size;
  const rank = now.filter((value) => value > SEEN * most).length;
  const cells = now.map((value, k) => svg("rect", { x: 20 + k * cell, y: 20 + k * cell, width: cell - 1, height: cell - 1, rx: 2, class: "cell", "fill-opacity": Math.min(1, value / most || 0).toFixed(3) }));
  const grid = Array.from({ length: size + 1 }, (_, k) => `M20 ${20 + k * cell}h${SIDE}M${20 + k * cell} 20v${SIDE}`).join("");
  const line = (y, text, kind = "label") => svg("text", { x: 320, y, class: kind }, text);
  return {
    title: "The attention head", look: "Key matrix times query matrix, entry by entry; a strong color is a large entry. It gains one direction at a time.",
    says: `${rank} of ${size} directions are learned.`,
    drawing: svg("svg", { viewBox: "0 0 560 290" }, svg("path", { d: grid, class: "axis" }), cells,
      line(120, String(rank), "figure"), line(150, `of ${size} directions are learned`), line(180, `${view.header.axis} ${number(view.times[rowOf(view)])}`)),
  };
}
