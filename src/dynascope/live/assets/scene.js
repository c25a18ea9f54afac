// The drawing beside the panels: the task and the network, with the state of training at the clock in them.

import { fill, h } from "./dom.js";
import { groupNames } from "./legend.js";
import { concepts, signalsOf } from "./scene-concepts.js";
import { head } from "./scene-head.js";
import { tokens } from "./scene-tokens.js";
import { valley } from "./scene-valley.js";
import { weights } from "./scene-weights.js";

// Each takes (views, row of a view, group, state), and gives { title, look, drawing }, or null if the trace lacks what it needs.
const SCENES = { concepts, head, tokens, weights };

export class Scene {
  constructor(redraw) {
    this.redraw = redraw;
    this.group = 0;
    this.title = h("h2", {});
    this.look = h("p", { class: "look" });
    this.place = h("div", { class: "drawing", role: "img" });
    this.select = h("select", { "aria-label": "Setting that is drawn", onchange: () => {
      this.group = Number(this.select.value);
      this.redraw();
    } });
    this.panel = h("article", { class: "panel scene" }, h("header", {}, this.title, this.select), this.look, this.place);
    this.element = null;
  }

  update(kind, state, clock) {
    const first = [...state.views.values()].find((view) => view.header.group_labels.length > 1);
    const names = first ? groupNames(first, state) : [""];
    this.group = Math.min(this.group, names.length - 1);
    const found = SCENES[kind]?.(state.views, (view) => Math.max(0, clock.rows(view) - 1), this.group, state);
    this.element = found ? this.panel : null;
    if (!found) return;
    this.title.textContent = found.title;
    this.look.textContent = found.look;
    this.place.setAttribute("aria-label", found.says);
    if (this.names !== names.join()) fill(this.select, names.map((name, k) => h("option", { value: k }, name)));
    this.names = names.join();
    this.select.value = String(this.group);
    this.select.hidden = names.length < 2;
    fill(this.place, found.drawing);
  }
}

// What lies behind the lines of a panel: the valley under an orbit, the clusters around a path.
export function backdrop(kind, state, name, data) {
  const view = state.views.get(name);
  if (view?.kind !== "path") return [];
  if (kind === "valley") return valley(data);
  if (kind === "concepts" && name === "output") return signalsOf(view, state);
  return [];
}
