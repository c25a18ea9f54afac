// The form of an experiment: presets, control, seed and a control for each field; errors beside the field.

import { fill, h } from "./dom.js";
import { ask } from "./server.js";

const shown = () => (window.matchMedia("(max-width: 60rem)").matches ? 3 : 9); // fields that are seen at once; the rest is folded

export class Form {
  constructor(element, onsubmit, onchecked, onturned) {
    this.element = element;
    this.onturned = onturned;
    this.onsubmit = onsubmit;
    this.onchecked = onchecked;
    this.rows = new Map();
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.onsubmit();
    });
  }

  show(experiment, set = {}) {
    const live = this.experiment?.id === experiment.id && this.live.checked;
    this.experiment = experiment;
    this.rows = new Map();
    const names = Object.keys(experiment.presets);
    this.preset = h("select", { id: "preset", onchange: () => this.reset() }, names.map((name) => h("option", { value: name }, name)));
    this.usual = names.includes("quick") ? "quick" : names[0];
    this.preset.value = names.includes(set.preset) ? set.preset : this.usual;
    this.control = h("input", { type: "checkbox", id: "control", checked: Boolean(set.control), onchange: () => this.reset() });
    this.seed = h("input", { type: "text", id: "field-seed-run", inputmode: "numeric", value: String(set.seed ?? 0), oninput: () => this.changed(), "aria-describedby": "error-seed-run" });
    this.live = h("input", { type: "checkbox", id: "as-i-turn", checked: live });
    this.general = h("p", { class: "error", id: "error-general", role: "alert" });
    this.seedError = h("div", { class: "error", id: "error-seed-run" });
    const rows = experiment.fields.map((field) => this.row(field));
    const known = new Set(Object.keys(set.changes || {}));
    const settings = [...Object.entries(experiment.presets)].filter(([name]) => ["quick", "full"].includes(name)).flatMap(([, pair]) => pair);
    const varied = new Set(experiment.fields.map((field) => field.name).filter((name) => new Set(settings.map((values) => values[name])).size > 1));
    const order = [...experiment.fields.keys()].sort((a, b) => rank(experiment.fields[b], known, varied) - rank(experiment.fields[a], known, varied));
    const [first, rest] = [order.slice(0, shown()), order.slice(shown())].map((some) => some.sort((a, b) => a - b).map((k) => rows[k]));
    fill(this.element,
      h("div", { class: "pair" },
        h("div", { class: "field" }, h("label", { for: "preset" }, "preset"), this.preset),
        h("div", { class: "field" }, h("label", { for: "field-seed-run" }, "seed of the run"), this.seed)),
      this.seedError,
      h("label", { class: "check", title: "The setting in which the phenomenon is known to be absent" }, this.control, "control: the phenomenon is absent"),
      h("label", { class: "check" }, this.live, "run as I turn the knobs"),
      this.general, first,
      rest.length ? h("details", { class: "more-fields" }, h("summary", {}, `${rest.length} more fields`), rest) : null);
    this.element.hidden = false;
    this.reset(set.changes || {}, false);
  }

  row(field) {
    const id = `field-${field.name}`;
    const hint = `error-${field.name}`;
    const changed = () => this.changed(field.name);
    const row = { field };
    if (field.control === "choice") {
      row.input = h("select", { id, onchange: changed, "aria-describedby": hint }, field.options.map((option) => h("option", { value: option }, option)));
      row.element = row.input;
    } else {
      row.input = h("input", { type: "text", id, autocomplete: "off", spellcheck: "false", oninput: changed, "aria-describedby": hint });
      row.element = row.input;
      if (field.control === "number") {
        row.range = h("input", { type: "range", min: 0, max: 200, step: 1, "aria-label": `${field.label}, slider`, oninput: () => {
          row.input.value = text(valueAt(field, Number(row.range.value) / 200), field);
          changed();
        } });
        row.element = h("div", { class: "row" }, row.range, row.input);
      }
    }
    row.error = h("div", { class: "error", id: hint });
    row.box = h("div", { class: "field", "data-field": field.name },
      h("label", { for: id }, h("span", {}, field.label), h("span", { class: "takes" }, field.takes)), row.element,
      field.description ? h("div", { class: "hint" }, field.description) : null, row.error);
    this.rows.set(field.name, row);
    return row.box;
  }

  // The fields at their values in the preset, or its control, with these changes on top.
  reset(changes = {}, tell = true) {
    const values = this.values();
    for (const [name, row] of this.rows) {
      row.input.value = changes[name] ?? values[name];
      this.move(row);
    }
    if (tell) this.changed(); else this.check();
  }

  // The text of each field.
  texts() { return Object.fromEntries([...this.rows].map(([name, row]) => [name, row.input.value])); }

  // Turn the control on or off.
  flip() {
    this.control.checked = !this.control.checked;
    this.reset();
  }

  values() { return this.experiment.presets[this.preset.value][this.control.checked ? 1 : 0]; }

  move(row) {
    if (row.range) row.range.value = Math.round(200 * placeOf(row.field, Number(row.input.value)));
    row.box.classList.toggle("changed", row.input.value !== this.values()[row.field.name]);
  }

  changed(name) {
    if (name) this.move(this.rows.get(name));
    this.onturned();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check().then((fine) => {
      if (fine && this.live.checked) this.onsubmit();
    }), 60);
  }

  // What the form asks for.
  asked() {
    const values = this.values();
    const changes = {};
    for (const [name, row] of this.rows) if (row.input.value !== values[name]) changes[name] = row.input.value;
    return { id: this.experiment.id, preset: this.preset.value, control: this.control.checked, seed: this.seed.value.trim(), changes };
  }

  async check() {
    try {
      const found = await ask("/api/check", this.asked());
      this.refuse({});
      this.onchecked(found);
      return true;
    } catch (error) {
      if (error.status) this.refuse(error.fields, error.message);
      return false;
    }
  }

  // Put each line beside its field.
  refuse(lines, message = "") {
    const left = { ...lines };
    for (const [name, row] of this.rows) {
      row.error.textContent = left[name] || "";
      if (left[name]) row.input.setAttribute("aria-invalid", "true"); else row.input.removeAttribute("aria-invalid");
      if (left[name]) row.box.closest("details")?.setAttribute("open", "");
      delete left[name];
    }
    this.seedError.textContent = left.seed && !this.rows.has("seed") ? left.seed : "";
    delete left.seed;
    const general = Object.values(left);
    this.general.textContent = general.length ? general.join(" ") : Object.keys(lines).length ? "" : message;
  }
}

// Which fields are seen first: those that were changed, that the control or a preset changes, that are the experiment's own.
const rank = (field, known, varied) => 8 * known.has(field.name) + 4 * varied.has(field.name) + 2 * field.own
  + (field.control === "number" ? 1 : 0.4) - 0.7 * field.nullable - (field.name === "precision" ? 2 : 0);

function valueAt(field, place) {
  const { low, high, log } = field;
  return log ? low * (high / low) ** place : low + (high - low) * place;
}

function placeOf(field, value) {
  const { low, high, log } = field;
  if (!Number.isFinite(value) || high === low || (log && value <= 0)) return 0;
  const place = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.min(1, Math.max(0, place));
}

const text = (value, field) => String(field.whole ? Math.round(value) : Number(value.toPrecision(3)));
