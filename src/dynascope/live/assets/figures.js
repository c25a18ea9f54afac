// What a run leaves: the experiment's own figures.

import { byId, fill, h, problem } from "./dom.js";
import { download, fileAddress, pathOf } from "./server.js";

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
