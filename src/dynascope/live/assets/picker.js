// The list of experiments, with a search over ids, questions and places.

import { byId, fill, h } from "./dom.js";
import { mark } from "./claims.js";
import { ask } from "./server.js";

export class Picker {
  async load() {
    this.experiments = await ask("/api/experiments");
    byId("search").addEventListener("input", () => this.show());
    this.show();
  }

  show(current = this.current) {
    this.current = current;
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.experiments.filter((one) => {
      const text = `${one.id} ${one.title} ${one.system} ${one.document} ${one.place}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const systems = Map.groupBy ? Map.groupBy(found, (one) => one.system) : grouped(found);
    fill(byId("experiments"), [...systems].map(([system, some]) => [h("h2", {}, system), some.map((one) => this.entry(one))]).flat(2));
    if (!found.length) fill(byId("experiments"), h("p", { class: "soft" }, "No experiment has all of these words."));
  }

  entry(one) {
    const go = () => { location.hash = `#/run/${one.id}`; };
    return h("button", { type: "button", "data-id": one.id, "aria-current": one.id === this.current ? "true" : null, onclick: go },
      one.title, h("small", {}, one.id, one.cost.quick ? `, quick ${one.cost.quick}` : ""), one.verdict ? mark(one.verdict, one.verdict) : null);
  }
}

function grouped(found) {
  const groups = new Map();
  for (const one of found) groups.set(one.system, [...(groups.get(one.system) || []), one]);
  return groups;
}
