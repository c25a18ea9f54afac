// The claims of a run: sentences that turn green or red, each with one number and what was expected of it.

import { byId, fill, h, prose } from "./dom.js";

const CROSS = "M3.5 3.5l9 9m0-9l-9 9";
const SIGNS = { holds: "M2.5 8.6l3.6 3.6 7.4-8.2", fails: CROSS, known: CROSS, news: CROSS, waiting: "M3.5 8h9", erratum: "M11.2 1.9l2.9 2.9-8.6 8.6-3.7.8.8-3.7z" };
const VERDICTS = { holds: "holds", known: "fails, as on record", news: "news: not as on record", waiting: "not judged yet", erratum: "not as printed" };

export function mark(verdict, text) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  for (const [name, value] of Object.entries({ viewBox: "0 0 16 16", "aria-hidden": "true", fill: "none", stroke: "currentColor", "stroke-width": 2.2, "stroke-linecap": "round", "stroke-linejoin": "round" })) svg.setAttribute(name, value);
  path.setAttribute("d", SIGNS[verdict] || SIGNS.erratum);
  svg.append(path);
  return h("span", { class: `mark ${verdict}` }, svg, text);
}

// All that was measured: on one line where that is enough, else labeled pairs.
function value(item) {
  if (typeof item === "string") return item;
  if (Array.isArray(item)) return item.map((inner) => h("div", {}, value(inner)));
  return h("dl", { class: "pairs" }, item.pairs.map(([key, inner]) => [h("dt", {}, key), h("dd", {}, value(inner))]).flat());
}

// `note` says where they come from, if not from a run of this store.
export function showClaims(claims, note = "") {
  const section = byId("verdicts");
  section.hidden = !claims.length;
  if (!claims.length) return;
  fill(section, h("h2", {}, "Claims"), h("p", { class: "soft tally" }, tally(claims), note), h("ul", { class: "sentences" }, claims.map(sentence)));
}

function tally(claims) {
  const counts = [["holds", "holds", "hold"], ["known", "fails", "fail", ", as on record"], ["news", "differs", "differ", " from the record"], ["erratum", "is", "are", " not as printed"]];
  const parts = counts.map(([kind, one, several, rest = ""]) => [claims.filter((claim) => claim.mark === kind).length, one, several, rest]);
  return `${parts.filter(([count]) => count).map(([count, one, several, rest]) => `${count} ${count === 1 ? one : several}${rest}`).join("; ")}. `;
}

// A new run has begun: the sentences stay, and wait for their verdicts.
export function awaitClaims() {
  const section = byId("verdicts");
  for (const row of section.querySelectorAll("[data-claim]")) {
    row.className = "sentence is-waiting";
    row.querySelector(".mark").replaceWith(mark("waiting", ""));
    row.querySelector(".measured").textContent = "…";
    row.querySelector("details")?.remove();
  }
  if (!section.hidden) section.querySelector(".tally").textContent = "They are judged when the run is complete.";
}

function sentence(claim) {
  const expected = typeof claim.expected === "string" ? claim.expected : "see the details";
  const verdict = h("span", { class: "unseen" }, claim.kind || VERDICTS[claim.mark]);
  return h("li", { class: `sentence is-${claim.mark}`, "data-claim": claim.id },
    mark(claim.mark, ""), verdict, prose("p", claim.statement, { class: "statement" }),
    h("p", { class: "one-number" }, h("b", { class: "measured" }, claim.headline), " ", h("span", { class: "soft" }, `expected: ${expected}`)),
    h("details", { open: claim.mark === "news" }, h("summary", {}, claim.mark === "known" ? "Why it fails, and all numbers" : "All numbers"), details(claim)));
}

function details(claim) {
  const pair = (name, content) => (content ? h("div", { class: "detail" }, h("b", {}, name), h("div", {}, content)) : null);
  return [
    claim.known ? h("p", { class: "diagnosis" }, claim.verdict === "fails" ? "Known to fail: " : "Holds here, though it is recorded as failing: ", prose("span", claim.known)) : null,
    pair("Measured", value(claim.measured)), pair("Expected", value(claim.expected)),
    claim.printed ? pair("Printed", prose("q", claim.printed)) : null,
    claim.post_hoc ? pair("Chosen after seeing results", prose("span", claim.post_hoc)) : null,
    pair("Where", claim.source),
  ];
}
