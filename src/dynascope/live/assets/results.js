// What a run gives: verdicts as the claims are judged, and the experiment's own figures.

import { byId, fill, h, problem, prose } from "./dom.js";
import { download, fileAddress, pathOf } from "./server.js";

const CROSS = "M3.5 3.5l9 9m0-9l-9 9";
const SIGNS = { holds: "M2.5 8.6l3.6 3.6 7.4-8.2", fails: CROSS, known: CROSS, news: CROSS, erratum: "M11.2 1.9l2.9 2.9-8.6 8.6-3.7.8.8-3.7z" };

export function mark(verdict, text) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  for (const [name, value] of Object.entries({ viewBox: "0 0 16 16", "aria-hidden": "true", fill: "none", stroke: "currentColor", "stroke-width": 2.2, "stroke-linecap": "round", "stroke-linejoin": "round" })) svg.setAttribute(name, value);
  path.setAttribute("d", SIGNS[verdict] || SIGNS.erratum);
  svg.append(path);
  return h("span", { class: `mark ${verdict}` }, svg, text);
}

// A number of a claim: on one line where that is enough, else labeled pairs.
function value(item) {
  if (typeof item === "string") return item;
  if (Array.isArray(item)) return item.map((inner) => h("div", {}, value(inner)));
  return h("dl", { class: "pairs" }, item.pairs.map(([key, inner]) => [h("dt", {}, key), h("dd", {}, value(inner))]).flat());
}

export function showClaims(claims) {
  const section = byId("verdicts");
  section.hidden = !claims.length;
  if (!claims.length) return;
  const rows = claims.map((claim) => h("tr", { class: `is-${claim.mark}`, "data-claim": claim.id },
    h("td", {}, mark(claim.mark, claim.kind || claim.verdict)),
    h("td", {}, prose("span", claim.statement, { class: "statement" }), h("span", { class: "where" }, claim.source),
      claim.printed ? h("p", { class: "printed" }, "Printed: ", prose("q", claim.printed)) : null,
      claim.known ? h("p", { class: "diagnosis" }, claim.verdict === "fails" ? "Known to fail: " : "Holds here, though it is recorded as failing: ", prose("span", claim.known)) : null,
      claim.post_hoc ? h("p", { class: "post-hoc" }, "Chosen after seeing results: ", prose("span", claim.post_hoc)) : null),
    h("td", { class: "value", "data-label": "Measured" }, value(claim.measured)),
    h("td", { class: "value", "data-label": "Expected" }, value(claim.expected))));
  fill(section, h("h2", {}, "Claims"), h("table", { class: "claims stack" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "c-verdict" }, "Verdict"), h("th", { scope: "col" }, "Claim"),
      h("th", { scope: "col", class: "c-value" }, "Measured"), h("th", { scope: "col", class: "c-value" }, "Expected"))),
    h("tbody", {}, rows)));
}

export function showFigures(run) {
  const section = byId("figures");
  for (const image of section.querySelectorAll("img")) URL.revokeObjectURL(image.src);
  section.hidden = !run?.figures.length;
  fill(section, section.hidden ? [] : [h("h2", {}, "Figures"), run.figures.map((name) => figure(run, name))].flat());
}

function figure(run, name) {
  const file = (kind) => pathOf("runs", run.id, run.digest, "figures", `${name}.${kind}`);
  const image = h("img", { alt: `Figure ${name}: ${run.title}` });
  const sheet = h("a", { class: "sheet", target: "_blank" }, image);
  fileAddress(file("svg")).then((address) => { image.src = sheet.href = address; }, problem);
  const save = (kind) => h("button", { type: "button", onclick: () => download(file(kind)).catch(problem) }, kind.toUpperCase());
  return h("figure", {}, sheet, h("figcaption", {}, h("b", {}, name.replaceAll("-", " ")), h("span", {}, save("svg"), save("png"))));
}
