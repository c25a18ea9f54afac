// The stored runs of an experiment, with what differs; any of them can be shown, overlaid or explored.

import { byId, fill, h } from "./dom.js";
import { mark } from "./claims.js";
import { ask, pathOf } from "./server.js";
import { viewsOf } from "./views.js";

export class Runs {
  constructor(onoverlay) {
    this.onoverlay = onoverlay;
    this.chosen = new Map(); // by digest: { label, views }
  }

  get others() { return [...this.chosen.values()].filter((run) => run.views); }

  async load(id, current = "") {
    if (id !== this.id) this.chosen.clear();
    this.id = id;
    this.current = current;
    const rows = await ask(pathOf("runs", id));
    if (id !== this.id) return;
    const section = byId("runs");
    section.hidden = !rows.length;
    fill(section, h("h2", {}, "Stored runs"), h("table", { class: "runs-table stack" },
      h("thead", {}, h("tr", {}, ["Overlay", "Run", "What differs", "Verdicts", "Age", ""].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => this.row(row)))));
  }

  row(row) {
    const differs = Object.entries(row.differs || {}).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ");
    const complete = row.state === "complete";
    const label = [row.digest.slice(0, 8), row.preset || "full", row.seed ? `seed ${row.seed}` : "", differs].filter(Boolean).join(", ");
    const box = h("input", { type: "checkbox", "aria-label": `Overlay ${label}`, checked: this.chosen.has(row.digest), onchange: () => this.overlay(row, label, box) });
    const counts = [["holds", row.holds], ["erratum", row.errata], [row.news?.length ? "news" : "known", row.fails]].filter(([, count]) => count);
    return h("tr", { "data-digest": row.digest, "aria-current": row.digest === this.current ? "true" : null },
      h("td", { "data-label": "Overlay" }, complete ? box : ""),
      h("td", {}, h("span", {}, h("span", { class: "id" }, row.digest.slice(0, 8)), ` ${complete ? row.preset || "full" : row.state}${row.seed ? `, seed ${row.seed}` : ""}`)),
      h("td", { "data-label": "Differs" }, differs || row.problem || "–"),
      h("td", { "data-label": "Verdicts" }, h("span", { class: "marks" }, counts.map(([verdict, count]) => mark(verdict, String(count))))),
      h("td", { "data-label": "Age" }, row.age),
      h("td", {}, complete ? [
        h("button", { type: "button", class: "plain", onclick: () => { location.hash = `#/run/${row.id}/${row.digest}`; } }, "Show"), " ",
        h("a", { href: `#/explore/${row.id}/${row.digest}` }, "Explore")] : ""));
  }

  async overlay(row, label, box) {
    if (!box.checked) {
      this.chosen.delete(row.digest);
    } else {
      this.chosen.set(row.digest, { label, views: null });
      const found = await ask(pathOf("runs", row.id, row.digest, "views"));
      if (this.chosen.has(row.digest)) this.chosen.set(row.digest, { label, views: viewsOf(found.measured) });
    }
    this.onoverlay();
  }
}
