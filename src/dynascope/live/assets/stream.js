// The events of the run under way, and whether the server is there.

import { byId } from "./dom.js";

const KINDS = ["hello", "begin", "part", "rows", "trace", "claims", "progress", "step", "paused", "resumed", "warning", "ended"];
const GONE = "The server does not answer. Finished runs are stored, and a run that was under way has kept its checkpoint: " +
  "start `dynascope live` again, open the address that it prints, and run the same setting to go on.";

export function listen(handlers) {
  const source = new EventSource("/api/events");
  let server = "";
  const told = (text, gone) => {
    byId("connection").textContent = text;
    byId("connection").dataset.connected = String(!gone);
    byId("notice").hidden = !gone;
    byId("notice").textContent = gone ? GONE : "";
  };
  source.addEventListener("open", () => told("connected", false));
  source.addEventListener("error", () => {
    told("not connected", true);
    handlers.gone?.();
  });
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => {
      const facts = JSON.parse(event.data);
      if (kind === "hello") {
        facts.restarted = Boolean(server) && server !== facts.server;
        server = facts.server;
      }
      handlers[kind]?.(facts);
    });
  }
  window.addEventListener("pagehide", () => source.close());
}
