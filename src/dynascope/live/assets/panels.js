// The panels of a run: the main ones first, with what to look for in them; the others after them, folded.

import { fill, h, number, words } from "./dom.js";
import { config, layout } from "./colors.js";
import { legend } from "./legend.js";
import { Miniature } from "./miniature.js";
import { plotly } from "./plotly.js";
import { cutAtFloor, drawing, extent } from "./plots.js";
import { backdrop, Scene } from "./scene.js";

const MOST_PANELS = 16;
const MAIN = 2; // panels that come first if nothing else is said
const DETAIL = /_(error|products|residual|missed|converged|angle)$/; // what a probe says of its own estimate
const PARTS = /(^|[/_])(training|train|validation|valid|test)(?=$|[/_])/;

// The variables that share their scales: "train_loss" and "test_loss".
const family = (name) => name.replace(PARTS, "$1*");

export class Panels {
  constructor(element, clock) {
    this.element = element;
    this.clock = clock;
    this.shown = new Map(); // by name: { panel, plot }
    this.scales = new Map(); // by family: whether its axes are logarithmic, where that was chosen
    this.captions = { main: [], panels: {}, scene: "", legend: "" };
    this.state = { views: new Map(), theory: new Map(), others: [] };
    this.waiting = false;
    this.front = h("div", { class: "panels front" });
    this.rest = h("div", { class: "panels" });
    this.summary = h("summary", {});
    this.more = h("details", { class: "more-panels", id: "more-panels", hidden: true, ontoggle: () => this.draw() }, this.summary, this.rest);
    this.scene = new Scene(() => this.draw());
  }

  // Another experiment: its captions, and no choice of scales yet.
  about(id, captions) {
    if (this.id === id) return;
    this.id = id;
    this.captions = captions;
    this.scales.clear();
    this.clear();
  }

  clear() {
    for (const { panel, plot } of this.shown.values()) {
      window.Plotly?.purge(plot);
      panel.remove();
    }
    this.shown.clear();
  }

  // Draw soon: what arrives before the next frame is drawn at once.
  draw(state = this.state) {
    this.state = state;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.drawNow();
    });
  }

  // The size of the panels has changed.
  resize() {
    for (const { plot } of this.shown.values()) if (plot.layout && plot.clientWidth) Plotly.Plots.resize(plot);
  }

  // The variables that come first, and the others.
  order() {
    const all = [...this.state.views.keys()];
    const names = [...all.filter((name) => !DETAIL.test(name)), ...all.filter((name) => DETAIL.test(name))].slice(0, MOST_PANELS);
    const main = this.captions.main.filter((name) => names.includes(name));
    const first = main.length ? main : names.slice(0, MAIN);
    return [first, names.filter((name) => !first.includes(name))];
  }

  drawNow() {
    const [first, others] = this.order();
    const names = [...first, ...others];
    for (const [name, { panel, plot, kind }] of this.shown) {
      if (!names.includes(name) || kind !== this.state.views.get(name).kind) {
        window.Plotly?.purge(plot);
        panel.remove();
        this.shown.delete(name);
      }
    }
    for (const name of names) if (!this.shown.has(name)) this.shown.set(name, this.made(name, this.state.views.get(name)));
    if (names.length && this.front.parentNode !== this.element) fill(this.element, this.front, this.more);
    this.scene.update(this.captions.scene, this.state, this.clock);
    const [main, ...beside] = first.map((name) => this.shown.get(name).panel);
    place(this.front, [main, this.scene.element, ...beside]);
    place(this.rest, others.map((name) => this.shown.get(name).panel));
    this.more.hidden = !others.length;
    this.summary.textContent = `${others.length} more ${others.length === 1 ? "panel" : "panels"}: ${others.map((name) => this.title(name)).join("; ")}`;
    legend(this.state);
    if (!window.Plotly) {
      this.sketch(first);
      return;
    }
    this.plot(this.more.open ? names : first);
    const points = Math.max(0, ...names.map((name) => this.clock.rows(this.state.views.get(name))));
    Object.assign(this.element.dataset, { run: this.state.number ?? 0, points, theory: this.state.theory.size, others: this.state.others.length });
  }

  // The curves alone, until Plotly is there.
  sketch(names) {
    for (const name of names) {
      const { plot } = this.shown.get(name);
      const view = this.state.views.get(name);
      if (plot.firstChild || view.kind === "picture") continue;
      const canvas = h("canvas", { class: "sketch" });
      plot.append(canvas);
      new Miniature(canvas, view, this.state.theory.get(name)).draw(1);
    }
    plotly().then(() => this.draw());
  }

  title(name) { return this.caption(name)?.title ?? words(name.split("/").at(-1)); }

  caption(name) { return this.captions.panels[name] ?? this.captions.panels[name.split("/").at(-1)]; }

  // Draw these panels; those of a family have the same scales.
  plot(names) {
    const found = names.map((name) => {
      const view = this.state.views.get(name);
      return { name, view, item: this.shown.get(name), count: this.clock.rows(view), ...drawing(view, this.clock.rows(view), this.state, name, this.clock, this.caption(name)?.axes) };
    });
    for (const one of found) {
      if (!one.item.x) continue;
      const kin = found.filter((other) => family(other.name) === family(one.name) && other.item.x);
      this.scaled(one, kin.length > 1 ? kin : [one]);
    }
    for (const { name, item, data, extra, note } of found) {
      item.note.textContent = note ?? "";
      const behind = backdrop(this.captions.scene, this.state, name, data);
      if (behind[0]?.type === "contour") filled(extra, behind[0]);
      item.plot.querySelector(".sketch")?.remove();
      Plotly.react(item.plot, [...behind, ...data], layout(extra), config);
    }
  }

  scaled(one, kin) {
    const { item, data, extra, view, count, name } = one;
    const chosen = this.scales.get(family(name)) ?? {};
    const span = extent(kin.flatMap((other) => other.data));
    const logs = { x: chosen.x ?? false, y: chosen.y ?? span.wide };
    if (logs.y) {
      const floor = cutAtFloor(data);
      extra.yaxis.type = "log";
      if (floor) one.note = `Theory is cut at ${number(floor)}: rounding hides anything smaller beside the values measured here.`;
    }
    if (kin.length > 1 && Number.isFinite(span.most)) {
      const [low, high] = logs.y ? [Math.log10(span.low), Math.log10(span.high)] : [span.least, span.most];
      const room = 0.04 * (high - low || 1);
      extra.yaxis.range = [low - room, high + room];
    }
    if (logs.x) extra.xaxis.type = "log";
    else if (view.kind === "curve" && count < view.rows && this.clock.at === null) extra.xaxis.range = [view.times[0], view.times.at(-1)];
    item.x.setAttribute("aria-pressed", logs.x);
    item.y.setAttribute("aria-pressed", logs.y);
  }

  made(name, view) {
    const item = { kind: view.kind };
    const { look } = this.caption(name) ?? {};
    item.plot = h("div", { class: "plot", role: "img", "aria-label": `${this.title(name)} over ${view.header.axis}` });
    item.note = h("p", { class: "note" });
    const toggle = (axis) => h("button", { type: "button", "aria-pressed": "false", title: `Logarithmic ${axis} axis`, onclick: () => {
      this.scales.set(family(name), { ...this.scales.get(family(name)), [axis]: item[axis].getAttribute("aria-pressed") !== "true" });
      this.draw();
    } }, `log ${axis}`);
    const scales = view.kind === "curve" || view.kind === "profile";
    if (scales) Object.assign(item, { x: toggle("x"), y: toggle("y") });
    item.panel = h("article", { class: "panel", "data-variable": name },
      h("header", {}, h("h2", { title: name }, this.title(name)), scales ? [item.x, item.y] : null), look ? h("p", { class: "look" }, look) : null, item.plot, item.note);
    return item;
  }
}

// The valley fills the panel, with one unit as long on both axes.
function filled(extra, { x, y }) {
  Object.assign(extra.xaxis, { range: [x[0], x.at(-1)], constrain: "domain" });
  Object.assign(extra.yaxis, { range: [y[0], y.at(-1)], constrain: "domain", scaleanchor: "x" });
}

// The children of an element, moved only where they are not there already.
function place(element, children) {
  const wanted = children.filter(Boolean);
  if (wanted.length !== element.children.length || wanted.some((child, k) => element.children[k] !== child)) element.replaceChildren(...wanted);
}
