// Stored sweeps: each claim and each number over the grid; a cell leads to its run.

import { byId, choice, fill, h, number } from "./dom.js";
import { config, layout, onThemeChange, SCALE, SHARES } from "./colors.js";
import { plotly } from "./plotly.js";
import { ask, pathOf } from "./server.js";

export class Sweeps {
  constructor() { onThemeChange(() => this.sweep && this.draw()); }

  async show(id, digest) {
    this.list = await ask("/api/sweeps");
    if (!this.list.length) {
      fill(byId("sweep-form"));
      fill(byId("sweep-head"), h("h1", {}, "No sweep is stored yet"),
        h("p", {}, "A sweep runs an experiment over a grid: ", h("code", {}, "dynascope sweep concept.signal-order --preset quick --grid dim=4,16,64 --grid depth=1,2")));
      fill(byId("sweep-plot"));
      return;
    }
    const known = this.list.find((one) => one.id === id && one.digest === digest) || this.list[0];
    this.sweep = await ask(pathOf("sweeps", known.id, known.digest));
    this.layer = 0;
    this.place = this.sweep.keys.map(() => 0);
    this.seed = 0;
    this.form();
    await plotly();
    this.draw();
  }

  // The keys along which it is drawn: the two longest.
  axes() {
    const order = this.sweep.keys.map((key, k) => [key.values.length, k]).sort((a, b) => b[0] - a[0]).map(([, k]) => k);
    return order.slice(0, 2).sort((a, b) => a - b);
  }

  form() {
    const { sweep } = this;
    const options = this.list.map((one) => [`${one.id}/${one.digest}`, `${one.id}: ${one.name}`]);
    const layers = sweep.layers.map((layer, k) => [String(k), layer.of === "claim" ? `claim ${layer.name}` : layer.name]);
    fill(byId("sweep-form"),
      choice("sweep", options, `${sweep.id}/${sweep.digest}`, (value) => { location.hash = `#/sweeps/${value}`; }),
      choice("shown", layers, String(this.layer), (value) => { this.layer = Number(value); this.draw(); }),
      sweep.keys.map((key, k) => choice(key.label, key.values.map((value, at) => [String(at), value]), String(this.place[k]), (value) => { this.place[k] = Number(value); this.draw(); })),
      sweep.seeds > 1 ? choice("seed", Array.from({ length: sweep.seeds }, (_, k) => String(k)), String(this.seed), (value) => { this.seed = Number(value); }) : null,
      h("button", { type: "button", class: "plain main", onclick: () => this.open() }, "Open this run"),
      h("p", { class: "error", id: "sweep-error", role: "alert" }));
  }

  async open(place = this.place) {
    const asked = new URLSearchParams({ place: place.join(","), seed: String(this.seed) });
    try {
      const run = await ask(`${pathOf("sweeps", this.sweep.id, this.sweep.digest, "run")}?${asked}`);
      location.hash = `#/explore/${run.id}/${run.digest}`;
    } catch (error) {
      byId("sweep-error").textContent = error.message;
    }
  }

  value(place) {
    return place.reduce((inside, k) => inside[k], this.sweep.layers[this.layer].values);
  }

  draw() {
    const { sweep } = this;
    const layer = sweep.layers[this.layer];
    fill(byId("sweep-head"), h("h1", {}, sweep.title), h("p", { class: "soft" }, `${sweep.name}. Click a cell to open its run.`), h("p", { class: "id" }, sweep.command));
    const plot = h("div", { class: "plot", id: "sweep-map", role: "img", "aria-label": `${layer.name} over ${sweep.keys.map((key) => key.label).join(" and ")}` });
    fill(byId("sweep-plot"), h("article", { class: "panel tall" }, h("header", {}, h("h2", {}, layer.of === "claim" ? `Claim ${layer.name}: share of seeds in which it holds` : layer.name)), plot));
    const [first, second] = this.axes();
    const along = sweep.keys[first];
    const at = (i, j) => this.place.map((k, axis) => (axis === first ? i : axis === second ? j : k));
    const share = layer.of === "claim";
    const scale = share ? { colorscale: SHARES, zmin: 0, zmax: 1 } : { colorscale: SCALE };
    const down = second === undefined ? [0] : sweep.keys[second].values.map((_, j) => j);
    const z = down.map((j) => along.values.map((_, i) => this.value(at(i, j))));
    const text = z.map((row) => row.map((value) => (value === null ? "–" : share ? `${Math.round(100 * value)} %` : number(value))));
    const labels = second === undefined ? [""] : sweep.keys[second].values;
    Plotly.react(plot, [{ type: "heatmap", z, x: along.values, y: labels, text, texttemplate: z.length * z[0].length <= 150 ? "%{text}" : "", xgap: 2, ygap: 2,
      hovertemplate: "%{x}, %{y}: %{text}<extra></extra>", colorbar: { thickness: 10, outlinewidth: 0 }, ...scale }],
      layout({ xaxis: { title: { text: along.label }, type: "category", showgrid: false }, yaxis: { title: { text: second === undefined ? "" : sweep.keys[second].label }, type: "category", showgrid: false } }), config);
    plot.on("plotly_click", ({ points: [point] }) => {
      const [j, i] = point.pointIndex ?? point.pointNumber;
      this.open(at(i, j));
    });
  }
}
