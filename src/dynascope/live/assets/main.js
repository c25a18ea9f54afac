// Where everything begins: the pages by their addresses, and the events of the server.

import { byId, problem } from "./dom.js";
import { Explorer } from "./explore.js";
import { Lecture } from "./lecture.js";
import { settings } from "./link.js";
import { Picker } from "./picker.js";
import { plotly } from "./plotly.js";
import { Runner } from "./runner.js";
import { takeToken } from "./server.js";
import { listen } from "./stream.js";
import { Sweeps } from "./sweeps.js";
import { welcome } from "./welcome.js";

takeToken();

const picker = new Picker();
const runner = new Runner();
const explorer = new Explorer();
const sweeps = new Sweeps();
new Lecture(runner);

async function route() {
  const [place, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", ...rest] = place.split("/").map(decodeURIComponent);
  const shown = page === "explore" || page === "sweeps" ? page : "run";
  for (const name of ["run", "explore", "sweeps"]) {
    byId(`page-${name}`).hidden = name !== shown;
    const tab = document.querySelector(`[data-page=${name}]`);
    if (name === shown) tab.setAttribute("aria-current", "page"); else tab.removeAttribute("aria-current");
  }
  try {
    if (shown === "explore") await explorer.show(...rest);
    else if (shown === "sweeps") await sweeps.show(...rest);
    else if (page === "run" && rest[0]) {
      const underWay = runner.busy && runner.running.id === rest[0];
      if (rest[0] !== runner.id || query) await runner.pick(rest[0], underWay ? runner.running : settings(query), !rest[1] && !underWay);
      picker.show(rest[0]);
      if (rest[1] && rest[1] !== runner.digest) await runner.showStored(...rest);
    }
    byId("notice").hidden = byId("connection").dataset.connected !== "false";
  } catch (error) {
    problem(error);
  }
  document.querySelector("[data-page=run]").setAttribute("href", runner.id ? `#/run/${runner.id}` : "#/");
}

const [, named] = location.hash.match(/^#\/run\/([^/?]+)$/) || [];
if (named) await runner.early(decodeURIComponent(named)); // before the list of experiments, which takes longer
await picker.load().then(() => named || welcome(picker.experiments)).catch(problem);
// Anew at the address of a server that was started again, and to come back to the first page.
window.addEventListener("hashchange", () => (takeToken() || (runner.id && /^#?\/?$/.test(location.hash)) ? location.reload() : route()));
plotly(); // a run will need it
await route();
listen(runner.handlers());
document.documentElement.dataset.ready = "true";
