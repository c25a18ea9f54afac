// The clock: it moves through training time. Everything that is drawn is drawn up to it.

import { fill, h, number } from "./dom.js";

const SECONDS = 7; // to play all of it
const NEXT = "M4 2.5v11l6.5-5.5zM11 2.5h2v11h-2z";
const PLAY = "M4 2.5v11l9.5-5.5z", PAUSE = "M3.5 2.5h3.2v11H3.5zM9.3 2.5h3.2v11H9.3z";

function icon(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

export class Clock {
  constructor(element, onchange) {
    this.element = element;
    this.onchange = onchange;
    this.times = [];
    this.axis = "step";
    this.end = 0; // rows there are so far
    this.at = null; // a row; null follows the run
    this.playing = false;
    this.button = h("button", { type: "button", class: "plain", onclick: () => this.toggle() });
    this.range = h("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": "Training time", oninput: () => {
      this.playing = false;
      this.set(Number(this.range.value));
    } });
    this.output = h("output", {});
    const on = h("button", { type: "button", class: "plain", "aria-label": "One step on", onclick: () => this.step(1) }, icon(NEXT));
    fill(element, this.button, on, this.range, this.output);
    this.show();
  }

  // The views that it moves: the one with the most rows gives the times.
  follow(views) {
    const longest = [...views.values()].reduce((best, view) => (!best || view.rows > best.rows ? view : best), null);
    this.element.hidden = !longest;
    if (!longest) return;
    if (this.times !== longest.times) this.at = null;
    this.times = longest.times;
    this.axis = longest.header.axis;
    this.end = Math.max(0, longest.filled - 1);
    this.show();
  }

  get row() { return Math.min(this.at ?? this.end, this.end); }
  get time() { return this.at === null ? Infinity : this.times[this.row]; }

  // How many rows of a view are seen: by time, or by the share of it where its axis is another.
  rows(view) {
    if (this.at === null) return view.filled;
    if (family(view.header.axis) === family(this.axis)) return view.until(this.times[this.row]);
    return Math.ceil(((this.row + 1) / Math.max(1, this.times.length)) * view.filled);
  }

  set(row) {
    this.at = row >= this.end ? null : row;
    this.show();
    this.onchange();
  }

  // One row back or on.
  step(by) {
    this.playing = false;
    this.set(Math.max(0, this.row + by));
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing) {
      const from = this.at === null || this.row >= this.end ? 0 : this.row;
      const began = performance.now() - (from / Math.max(1, this.end)) * SECONDS * 1000;
      this.at = from;
      const tick = (now) => {
        if (!this.playing) return;
        const row = Math.floor(((now - began) / (SECONDS * 1000)) * this.end);
        if (row >= this.end) this.playing = false;
        if (row !== this.at) this.set(row);
        if (this.playing) requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    }
    this.show();
  }

  show() {
    this.range.max = this.end;
    this.range.value = this.row;
    const time = this.times[this.row];
    const words = time === undefined ? "" : `${family(this.axis)} ${number(time)}`;
    this.output.textContent = words;
    this.range.setAttribute("aria-valuetext", words);
    this.button.setAttribute("aria-label", this.playing ? "Pause the clock" : "Play from here");
    fill(this.button, icon(this.playing ? PAUSE : PLAY));
  }
}

const family = (axis) => axis.split("_").at(-1);
