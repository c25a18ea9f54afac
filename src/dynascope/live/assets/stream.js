// The events of the run under way, and whether the server is there.

import { byId } from "./dom.js";
import { request } from "./server.js";

const RETRY_SECONDS = 2;
const GONE = "The server does not answer. Finished runs are stored, and a run that was under way has kept its checkpoint: " +
  "start `dynascope live` again, open the address that it prints, and run the same setting to go on.";

function tell(problem) {
  byId("connection").textContent = problem ? "not connected" : "connected";
  byId("connection").dataset.connected = String(!problem);
  byId("notice").hidden = !problem;
  byId("notice").textContent = problem;
}

// Each event of a response as { id, event, data }. An EventSource would do this, but cannot send the token.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", last = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const complete = (last + value).includes("\n\n");
    text += value;
    last = value.at(-1);
    if (!complete) continue; // a long event: it is looked at when it is whole
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = Object.fromEntries(block.split("\n").map((line) => line.match(/^(\w*): (.*)$/).slice(1)));
      if (event.event) yield event;
    }
  }
}

// Listen until the page is left, or the server refuses the token, as one that was started again does.
export async function listen(handlers) {
  const left = new AbortController();
  window.addEventListener("pagehide", () => left.abort());
  let seen = "";
  while (!left.signal.aborted) {
    try {
      const response = await request("/api/events", { headers: seen ? { "last-event-id": seen } : {}, signal: left.signal });
      tell("");
      for await (const { id, event, data } of events(response)) {
        seen = id || seen;
        handlers[event]?.(JSON.parse(data));
      }
    } catch (error) {
      if (error.status) {
        tell(error.message);
        handlers.gone?.();
        return;
      }
    }
    if (left.signal.aborted) return;
    tell(GONE);
    handlers.gone?.();
    await new Promise((resolve) => setTimeout(resolve, 1000 * RETRY_SECONDS));
  }
}
