// What colors and dashes mean, once for all panels, with the values that the members were run with.

import { byId, fill, h } from "./dom.js";
import { groupColor, ink, OTHERS } from "./colors.js";

const MOST = 8; // labels that are all shown; of more, the first and the last

export function sample(color, dash) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 10");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  for (const [name, value] of Object.entries({ d: "M0 5h24", stroke: color, "stroke-width": 2.2, fill: "none", "stroke-dasharray": dash })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

// The names of the settings of a run, from a template such as "μ = ({first_signals}, 2)": of a field that is a list,
// each setting has one entry. Nothing if a field is not there or a list ends.
export function namesFrom(template, fields, count) {
  if (!template) return null;
  const names = Array.from({ length: count }, (_, k) => template.replace(/\{(\w+)\}/g, (_, field) => {
    const value = parsed(fields[field]);
    return String((Array.isArray(value) ? value[k] : value) ?? "?");
  }));
  return names.some((name) => name.includes("?")) ? null : names;
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return undefined; }
}

// The names of the groups of a view: with the values that the trace holds, or those that the fields say.
export function groupNames(view, state) {
  const { group_labels, has_values } = view.header;
  return has_values ? group_labels : state.names?.length === group_labels.length ? state.names : group_labels;
}

export function legend(state) {
  const element = byId("legend");
  const colored = [...state.views.values()].find((view) => view.header.group_labels.length > 1);
  const items = [];
  if (colored) {
    const names = groupNames(colored, state);
    const most = names.length > MOST ? [0, names.length - 1] : names.keys();
    for (const k of most) items.push(h("span", {}, sample(groupColor(k, names.length), ""), names[k]));
    if (names.length > MOST) items.splice(1, 0, h("span", {}, `… ${names.length - 2} between …`));
  }
  if (state.theory.size) items.push(h("span", {}, sample(ink(), "5 3"), "theory"));
  state.others.forEach((run, k) => items.push(h("span", {}, sample(OTHERS[k % OTHERS.length], "2 3"), run.label)));
  element.hidden = !items.length;
  fill(element, items);
}
