// The explorer: any variable of any stored trace, over the axes that are chosen.

import { byId, choice, decoded, fill, h, problem } from "./dom.js";
import { config, groupColor, ink, layout, onThemeChange } from "./colors.js";
import { sample } from "./legend.js";
import { plotly } from "./plotly.js";
import { ask, download, pathOf } from "./server.js";

export class Explorer {
  constructor() {
    this.chosen = { trace: "measured", rest: "lines" };
    this.logs = { x: false, y: false };
    onThemeChange(() => this.found && this.draw());
  }

  async show(id, digest) {
    this.experiments = (await ask("/api/experiments")).filter((one) => one.verdict);
    if (!this.experiments.length) {
      fill(byId("explore-form"));
      fill(byId("explore-plots"));
      fill(byId("explore-head"), h("h1", {}, "Nothing is stored yet"), h("p", {}, "Run an experiment first: its traces can then be explored here."));
      return;
    }
    this.id = id || this.id || this.experiments[0].id;
    this.runs = (await ask(pathOf("runs", this.id))).filter((run) => run.state === "complete");
    this.digest = digest || (this.runs.some((run) => run.digest === this.digest) ? this.digest : this.runs[0]?.digest);
    if (!this.digest) return;
    this.run = await ask(pathOf("runs", this.id, this.digest));
    if (!this.run.traces.includes(this.chosen.trace)) this.chosen.trace = "measured";
    await this.variablesOf();
  }

  async variablesOf() {
    this.variables = (await ask(pathOf("runs", this.id, this.digest, "variables", this.chosen.trace))).filter((one) => one.numbers);
    if (!this.variables.length) {
      fill(byId("explore-head"), h("h1", {}, this.run.title), h("p", { class: "id" }, `${this.id}/${this.digest}`));
      fill(byId("explore-plots"), h("p", { class: "empty" }, `The ${this.chosen.trace} trace of this run has no numbers to draw.`));
      this.variable = { name: "", dims: [] };
      byId("explore-legend").hidden = true;
      this.form();
      return;
    }
    const known = this.variables.find((one) => one.name === this.chosen.variable) || this.variables.find((one) => one.dims.length) || this.variables[0];
    this.choose(known);
    this.form();
    await this.lines();
  }

  choose(variable) {
    const dims = variable.dims.map((dim) => dim.name);
    const repeats = ["seed", "member", "start", "trial"];
    const further = dims.filter((dim) => dim !== variable.x && !repeats.includes(dim));
    Object.assign(this.chosen, { variable: variable.name, x: variable.x, color: further[0] || dims.find((dim) => dim !== variable.x) || "", facet: further[1] || "" });
    this.variable = variable;
  }

  form() {
    const dims = this.variable.dims.map((dim) => [dim.name, `${dim.name} (${dim.size})`]);
    const or = [["", "none"], ...dims];
    const set = (name) => (value) => { this.chosen[name] = value; this.lines(); };
    const to = (id, digest) => { location.hash = `#/explore/${id}/${digest}`; };
    const experiments = this.experiments.map((one) => one.id);
    const log = (axis) => {
      const box = h("input", { type: "checkbox", id: `log-${axis}`, checked: this.logs[axis], onchange: () => { this.logs[axis] = box.checked; this.draw(); } });
      return h("label", { class: "check" }, box, `logarithmic ${axis}`);
    };
    fill(byId("explore-form"),
      choice("experiment", experiments.includes(this.id) ? experiments : [this.id, ...experiments], this.id, async (id) => { this.digest = ""; to(id, ""); }),
      choice("run", this.listed(), this.digest, (digest) => to(this.id, digest)),
      choice("trace", this.run.traces, this.chosen.trace, (trace) => { this.chosen.trace = trace; this.variablesOf(); }),
      choice("variable", this.variables.map((one) => one.name), this.variable.name, (name) => {
        this.choose(this.variables.find((one) => one.name === name));
        this.form();
        this.lines();
      }),
      choice("x axis", dims, this.chosen.x, set("x")),
      choice("color", or, this.chosen.color, set("color")),
      choice("facets", or, this.chosen.facet, set("facet")),
      choice("other dimensions", [["lines", "a line for each"], ["median", "their median"]], this.chosen.rest, set("rest")),
      log("x"), log("y"),
      h("p", { class: "error", id: "explore-error", role: "alert" }),
      h("div", { class: "controls", id: "downloads" }));
  }

  listed() {
    const rows = this.runs.map((run) => [run.digest, [run.digest.slice(0, 8), run.preset || "full", run.seed ? `seed ${run.seed}` : "", ...Object.entries(run.differs).map((pair) => pair.join(" "))].filter(Boolean).join(", ")]);
    return rows.some(([digest]) => digest === this.digest) ? rows : [[this.digest, this.digest.slice(0, 8)], ...rows];
  }

  async lines() {
    const { trace, variable, x, color, facet, rest } = this.chosen;
    fill(byId("explore-head"), h("h1", {}, this.run.title), h("p", { class: "id" }, `${this.id}/${this.digest}`));
    try {
      const asked = new URLSearchParams({ variable, x: x || "", color, facet, rest });
      this.found = await ask(`${pathOf("runs", this.id, this.digest, "lines", trace)}?${asked}`);
      byId("explore-error").textContent = "";
    } catch (error) {
      byId("explore-error").textContent = error.message;
      return;
    }
    await plotly();
    this.draw();
  }

  draw() {
    const { found, chosen } = this;
    const panels = found.panels.map((panel) => {
      const plot = h("div", { class: "plot", role: "img", "aria-label": `${chosen.variable} ${panel.label}` });
      return { plot, panel, element: h("article", { class: "panel" }, h("header", {}, h("h2", {}, [chosen.variable.replaceAll("_", " "), panel.label].filter(Boolean).join(", "))), plot) };
    });
    fill(byId("explore-plots"), panels.map((one) => one.element), found.left_out ? h("p", { class: "soft" }, `${found.left_out} further lines are not drawn.`) : null);
    for (const { plot, panel } of panels) Plotly.react(plot, panel.lines.map((line) => this.trace(line)), this.layout(), { ...config, displayModeBar: "hover" });
    this.legend();
    this.downloads(panels.map((one) => one.plot));
    byId("explore-plots").dataset.lines = String(found.panels.reduce((all, panel) => all + panel.lines.length, 0));
  }

  // What the colors mean: all of them, or the first and the last of many.
  legend() {
    const { colors } = this.found;
    const shown = colors.length > 8 ? [0, colors.length - 1] : [...colors.keys()];
    byId("explore-legend").hidden = colors.length < 2;
    fill(byId("explore-legend"), shown.map((k) => h("span", {}, sample(groupColor(k, colors.length), ""), `${this.chosen.color.replaceAll("_", " ")} ${colors[k]}`)));
  }

  trace(line) {
    const { found, chosen } = this;
    const color = chosen.color ? groupColor(line.color, Math.max(found.colors.length, 1)) : ink();
    const name = [chosen.color ? `${chosen.color} ${found.colors[line.color]}` : "", line.label].filter(Boolean).join(", ") || chosen.variable;
    return { type: "scatter", mode: found.x.length > 1 ? "lines" : "markers", x: found.x, y: Array.from(decoded(line.y)), name, line: { color, width: 1.6 }, marker: { color }, opacity: 0.85,
      hovertemplate: "%{x}, %{y:.5~g}<extra>%{fullData.name}</extra>" };
  }

  layout() {
    const { x, variable } = this.chosen;
    return layout({ xaxis: { title: { text: x || "" }, type: this.logs.x ? "log" : undefined }, yaxis: { title: { text: variable }, type: this.logs.y ? "log" : undefined } });
  }

  downloads(plots) {
    const { trace, variable } = this.chosen;
    const image = (format) => h("button", { type: "button", onclick: () => plots.forEach((plot, k) => Plotly.downloadImage(plot, {
      format, filename: `${this.id}-${this.digest.slice(0, 8)}-${variable}${plots.length > 1 ? `-${k + 1}` : ""}`.replaceAll("/", "-"), width: 900, height: 560, scale: format === "png" ? 2 : 1,
    })) }, format.toUpperCase());
    const data = (path, label) => h("button", { type: "button", onclick: () => download(path).catch(problem) }, label);
    const file = pathOf("runs", this.id, this.digest, trace);
    fill(byId("downloads"), h("span", { class: "soft" }, "Download"), image("png"), image("svg"),
      data(`${file}.csv?${new URLSearchParams({ variable })}`, "CSV"), data(`${file}.nc`, "netCDF"));
  }
}
