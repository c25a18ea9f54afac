// For a room: the whole screen with large type, and the keyboard instead of the mouse.

import { byId, fill, h } from "./dom.js";

const KEYS = [["Space", "play the clock, or stop it"], ["← →", "one step back or on"], ["R", "run"], ["C", "control on or off, and run it"], ["F", "whole screen with large type"], ["?", "these keys"]];

export class Lecture {
  constructor(runner) {
    this.runner = runner;
    this.help = h("div", { id: "keys", role: "dialog", "aria-label": "Keys", hidden: true },
      h("dl", { class: "pairs" }, KEYS.map(([key, does]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, does)]).flat()));
    this.button = h("button", { type: "button", id: "full", class: "plain", "aria-pressed": "false", onclick: () => this.toggle() }, "Full screen");
    const keys = h("button", { type: "button", id: "show-keys", class: "plain", "aria-label": "Keys", onclick: () => this.tell() }, "?");
    fill(byId("lecture"), this.button, keys, this.help);
    document.addEventListener("keydown", (event) => this.pressed(event));
    document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement) this.set(false); });
  }

  get on() { return document.documentElement.dataset.lecture === "true"; }

  set(on) {
    document.documentElement.dataset.lecture = String(on);
    this.button.setAttribute("aria-pressed", String(on));
    this.button.textContent = on ? "Leave full screen" : "Full screen";
    this.runner.panels.resize();
    this.runner.panels.draw(); // its letters grow too
  }

  // The large type comes with or without the whole screen, which a browser may refuse.
  async toggle() {
    const on = !this.on;
    this.set(on);
    try {
      if (on) await document.documentElement.requestFullscreen();
      else if (document.fullscreenElement) await document.exitFullscreen();
    } catch { /* the page fills its window */ }
  }

  tell() { this.help.hidden = !this.help.hidden; }

  pressed(event) {
    const typing = event.target.closest?.("input, select, textarea, summary, [contenteditable]");
    const pushing = event.key === " " && event.target.closest?.("button, a");
    if (typing || pushing || event.ctrlKey || event.metaKey || event.altKey || byId("page-run").hidden) return;
    const { clock, form } = this.runner;
    const does = {
      " ": () => clock.toggle(), ArrowLeft: () => clock.step(-1), ArrowRight: () => clock.step(1), r: () => this.runner.run(),
      c: () => { form.flip(); this.runner.run(); }, f: () => this.toggle(), "?": () => this.tell(), Escape: () => { this.help.hidden = true; if (this.on) this.toggle(); },
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!does || (!this.runner.id && event.key !== "?" && event.key.toLowerCase() !== "f")) return;
    event.preventDefault();
    does();
  }
}
