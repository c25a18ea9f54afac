// The plots of a run: a panel for each variable, measured solid, theory dashed, other runs dotted, up to the clock.

import { byId, fill, h, number } from "./dom.js";
import { config, groupColor, ink, layout, OTHERS, SCALE } from "./colors.js";

const HEADS = 24; // the most paths that have a dot at their end
const MOST_PANELS = 16;

export class Panels {
  constructor(element, clock) {
    this.element = element;
    this.clock = clock;
    this.shown = new Map(); // by name: { panel, plot, scale }
    this.state = { views: new Map(), theory: new Map(), others: [] };
    this.waiting = false;
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

  drawNow() {
    const names = [...this.state.views.keys()].slice(0, MOST_PANELS);
    for (const [name, { panel, plot }] of this.shown) {
      if (!names.includes(name) || this.shown.get(name).kind !== this.state.views.get(name).kind) {
        Plotly.purge(plot);
        panel.remove();
        this.shown.delete(name);
      }
    }
    if (names.length && this.element.querySelector(".empty")) fill(this.element);
    for (const name of names) if (!this.shown.has(name)) this.shown.set(name, this.made(name, this.state.views.get(name)));
    const panels = names.map((name) => this.shown.get(name).panel);
    if (panels.some((panel, k) => this.element.children[k] !== panel)) this.element.append(...panels);
    let points = 0;
    for (const name of names) {
      const view = this.state.views.get(name);
      const item = this.shown.get(name);
      const count = this.clock.rows(view);
      points = Math.max(points, count);
      const { data, extra } = drawing(view, count, this.state, name, this.clock, item.scale);
      item.x?.setAttribute("aria-pressed", extra.xaxis?.type === "log");
      item.y?.setAttribute("aria-pressed", extra.yaxis?.type === "log");
      Plotly.react(item.plot, data, layout(extra), config);
    }
    this.element.dataset.run = this.state.number ?? 0;
    this.element.dataset.points = points;
    this.element.dataset.theory = this.state.theory.size;
    this.element.dataset.others = this.state.others.length;
    legend(this.state);
  }

  made(name, view) {
    const item = { kind: view.kind, scale: { x: null, y: null } };
    item.plot = h("div", { class: "plot", role: "img", "aria-label": `${words(name)} over ${view.header.axis}` });
    const toggle = (axis) => h("button", { type: "button", "aria-pressed": "false", title: `Logarithmic ${axis} axis`, onclick: () => {
      item.scale[axis] = item[axis].getAttribute("aria-pressed") !== "true";
      this.draw();
    } }, `log ${axis}`);
    const scales = view.kind === "curve" || view.kind === "profile";
    if (scales) Object.assign(item, { x: toggle("x"), y: toggle("y") });
    item.panel = h("article", { class: "panel", "data-variable": name },
      h("header", {}, h("h2", {}, words(name)), scales ? [item.x, item.y] : null), item.plot);
    return item;
  }
}

const words = (name) => name.replaceAll("_", " ");

function drawing(view, count, state, name, clock, scale) {
  if (view.kind === "picture") return picture(view, Math.max(0, count - 1));
  const theory = state.theory.get(name);
  const data = [];
  const rowsOf = (other) => (other === view ? count : clock.rows(other));
  const add = (other, style) => {
    if (!other || other.kind !== view.kind || other.size !== view.size) return;
    const rows = rowsOf(other);
    if (other.kind === "path") data.push(...paths(other, rows, style));
    else if (other.kind === "profile") data.push(...profiles(other, rows, style));
    else data.push(...curves(other, rows, style));
  };
  state.others.forEach((run, k) => add(run.views.get(name), { color: OTHERS[k % OTHERS.length], dash: "dot", width: 1.3, note: run.label }));
  add(view, { width: 2.2 });
  add(theory, { color: ink(), dash: "5px,4px", width: 1, note: "theory" });
  const { dims, labels, axis } = view.header;
  if (view.kind === "path") {
    const title = (k) => ({ text: `${words(dims[0])} ${labels[0][k]}` });
    return { data, extra: { xaxis: { title: title(0) }, yaxis: { title: title(1) } } };
  }
  const x = { title: { text: words(view.kind === "profile" ? dims[0] : axis) } };
  const logs = { x: scale.x ?? false, y: scale.y ?? wide(data) };
  if (logs.x) x.type = "log";
  else if (view.kind === "curve" && count < view.rows && clock.at === null) x.range = [view.times[0], view.times.at(-1)];
  return { data, extra: { xaxis: x, yaxis: logs.y ? { type: "log" } : {} } };
}

// Whether positive values span more than three decades.
function wide(data) {
  let low = Infinity, high = 0;
  for (const { y } of data) for (const value of y) {
    if (value <= 0) return false;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return high > 1e3 * low;
}

function styled(view, member, style) {
  const { groups, group_labels } = view.header;
  const color = style.color ?? groupColor(groups[member], Math.max(1, group_labels.length || 1));
  return { color, width: style.width, ...(style.dash ? { dash: style.dash } : {}) };
}

function trace(view, member, part, style) {
  const name = [style.note, view.header.members[member], part].filter(Boolean).join(" · ");
  return { type: "scatter", mode: "lines", line: styled(view, member, style), opacity: style.color ? 0.9 : 0.8, name: name || view.header.name,
    hovertemplate: "%{x:.5~g}, %{y:.5~g}<extra>%{fullData.name}</extra>" };
}

function curves(view, count, style) {
  const x = view.times.slice(0, count);
  const parts = Array.from({ length: view.size }, (_, part) => part);
  return Array.from({ length: view.members }, (_, member) => parts.map((part) => {
    const line = trace(view, member, view.part(part), style);
    if (part && !line.line.dash) line.line.dash = ["solid", "dashdot", "longdash", "longdashdot"][part % 4];
    return { ...line, x, y: view.series(member, part, count) };
  })).flat();
}

function paths(view, count, style) {
  const lines = Array.from({ length: view.members }, (_, member) => ({
    ...trace(view, member, "", style), x: view.series(member, 0, count), y: view.series(member, 1, count),
  }));
  if (style.color || !count || view.members > HEADS) return lines;
  const heads = lines.map((line) => ({ x: [line.x.at(-1)], y: [line.y.at(-1)], mode: "markers", type: "scatter", hoverinfo: "skip",
    marker: { color: line.line.color, size: 6 } }));
  return [...lines, ...heads];
}

function profiles(view, count, style) {
  if (!count) return [];
  const labels = view.header.labels[0];
  return Array.from({ length: Math.min(view.members, 12) }, (_, member) => ({
    ...trace(view, member, "", style), x: labels, y: view.row(member, count - 1),
  }));
}

function picture(view, row) {
  const [height, width, colors] = view.header.shape;
  const values = view.row(0, row);
  if (colors) return painting(view, row, values, height, width);
  const z = Array.from({ length: height }, (_, k) => values.slice(k * width, (k + 1) * width));
  const { dims, axis } = view.header;
  const square = Math.max(height, width) < 5 * Math.min(height, width); // a few long rows fill the panel
  return {
    data: [{ type: "heatmap", z, colorscale: SCALE, colorbar: { thickness: 10, outlinewidth: 0 }, hovertemplate: "%{y}, %{x}: %{z:.4~g}<extra></extra>" }],
    extra: { xaxis: { title: { text: `${words(dims[1])}, at ${words(axis)} ${number(view.times[row])}` }, constrain: "domain" },
      yaxis: { title: { text: words(dims[0]) }, autorange: "reversed", constrain: "domain", ...(square ? { scaleanchor: "x" } : { dtick: height < 12 ? 1 : undefined }) } },
  };
}

// A picture in its own colors, from 0 to 1 or to 255.
function painting(view, row, values, height, width) {
  const scale = values.some((value) => value > 1.5) ? 1 : 255;
  const color = (k) => values.slice(3 * k, 3 * k + 3).map((value) => Math.min(255, Math.max(0, scale * value)));
  const z = Array.from({ length: height }, (_, i) => Array.from({ length: width }, (_, j) => color(i * width + j)));
  const bare = { showgrid: false, showticklabels: false, ticks: "", zeroline: false, constrain: "domain" };
  const title = { text: `at ${words(view.header.axis)} ${number(view.times[row])}` };
  return { data: [{ type: "image", z, hoverinfo: "skip" }], extra: { xaxis: { ...bare, title }, yaxis: bare } };
}

export function sample(color, dash) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 10");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  for (const [name, value] of Object.entries({ d: "M0 5h24", stroke: color, "stroke-width": 2.2, fill: "none", "stroke-dasharray": dash })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

// What colors and dashes mean, once for all panels.
function legend(state) {
  const element = byId("legend");
  const colored = [...state.views.values()].find((view) => view.header.group_labels.length > 1);
  const items = [];
  if (colored) {
    const { color, group_labels } = colored.header;
    const most = group_labels.length > 8 ? [0, group_labels.length - 1] : group_labels.keys();
    for (const k of most) items.push(h("span", {}, sample(groupColor(k, group_labels.length), ""), `${words(color)} ${group_labels[k]}`));
  }
  if (state.theory.size) items.push(h("span", {}, sample(ink(), "5 3"), "theory"));
  state.others.forEach((run, k) => items.push(h("span", {}, sample(OTHERS[k % OTHERS.length], "2 3"), run.label)));
  element.hidden = !items.length;
  fill(element, items);
}
