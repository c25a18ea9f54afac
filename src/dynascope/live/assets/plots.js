// A variable as Plotly's traces: measured solid, theory dashed, other runs dotted, up to the clock.

import { number, words } from "./dom.js";
import { groupColor, ink, OTHERS, SCALE } from "./colors.js";

const HEADS = 24; // the most paths that have a dot at their end
const MOST_BARS = 24; // numbers of a profile that are bars; more are a line
const PRECISION = 2 ** -23; // of a 32-bit float

// The data and the axes of a panel; `note` is what is said below it.
export function drawing(view, count, state, name, clock, axes) {
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
  add(view, { width: 2.2, names: state.names });
  add(theory, { color: ink(), dash: "5px,4px", width: 1, note: "theory", theory: true });
  const { dims, labels, axis } = view.header;
  if (view.kind === "path") {
    const title = (k) => ({ text: axes?.[k] ?? `${words(dims[0])} ${labels[0][k]}` });
    return { data, extra: { xaxis: { title: title(0) }, yaxis: { title: title(1), } } };
  }
  return { data, extra: { scattermode: "group", xaxis: { title: { text: words(view.kind === "profile" ? dims[0] : axis) } }, yaxis: {} } };
}

// The smallest and the largest positive value, and whether there is a negative one.
export function extent(data) {
  let low = Infinity, high = 0, least = Infinity, most = -Infinity;
  for (const { y, measured } of data) if (measured !== false) for (const value of y) {
    if (Number.isNaN(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
    if (value > 0 && value < low) low = value;
    if (value > high) high = value;
  }
  return { low, high, least, most, wide: least >= 0 && high > 1e3 * low };
}

// On a logarithmic axis: theory below what 32-bit numbers resolve of these values is left out; whether any is.
export function cutAtFloor(data) {
  const { low, high } = extent(data);
  const floor = Math.min(low, PRECISION ** 2 * high);
  let cut = false;
  for (const line of data) {
    if (line.measured !== false) continue;
    line.y = line.y.map((value) => {
      if (value >= floor || Number.isNaN(value)) return value;
      cut = true;
      return NaN;
    });
  }
  return cut ? floor : 0;
}

function styled(view, member, style) {
  const { groups, group_labels } = view.header;
  const color = style.color ?? groupColor(groups[member], Math.max(1, group_labels.length || 1));
  return { color, width: style.width, ...(style.dash ? { dash: style.dash } : {}) };
}

function trace(view, member, part, style) {
  const label = style.names?.[view.header.groups[member]];
  const name = [style.note, label, view.header.members[member], part].filter(Boolean).join(" · ");
  return { type: "scatter", mode: "lines", line: styled(view, member, style), opacity: style.color ? 0.9 : 0.8, name: name || view.header.name,
    measured: !style.theory, hovertemplate: "%{x:.5~g}, %{y:.5~g}<extra>%{fullData.name}</extra>" };
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
  const bars = labels.length <= MOST_BARS;
  const marks = (line) => (!bars ? {} : style.theory ? { mode: "markers", marker: { symbol: "line-ew-open", size: 12, color: line.line.color, line: { width: 2 } } } : style.color ? {} : { type: "bar", marker: { color: line.line.color } });
  return Array.from({ length: Math.min(view.members, 12) }, (_, member) => ({
    ...trace(view, member, "", style), x: labels, y: view.row(member, count - 1),
  })).map((line, member) => ({ ...line, ...marks(line), ...(bars ? { offsetgroup: String(member) } : {}) }));
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
