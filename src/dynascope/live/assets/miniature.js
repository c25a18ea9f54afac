// A small moving picture of a trace: it grows, rests, and begins again. It moves only while it is seen.

import { groupColor, ink, onThemeChange } from "./colors.js";

const SECONDS = 6, REST = 2.5;
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

export class Miniature {
  // `theory` and a curve `behind` may be undefined.
  constructor(canvas, view, theory, behind) {
    Object.assign(this, { canvas, view, theory, behind });
  }

  // Move while it is seen.
  start() {
    const seen = new IntersectionObserver(([entry]) => (entry.isIntersecting ? this.play() : this.pause()));
    seen.observe(this.canvas);
    onThemeChange(() => this.draw(this.share ?? 1));
  }

  play() {
    if (still.matches) { this.draw(1); return; }
    if (this.frame) return;
    const began = performance.now(); // a frame may carry an earlier time
    let last = 0;
    const tick = (now) => {
      this.frame = requestAnimationFrame(tick);
      if (now - last < 40) return;
      last = now;
      this.draw(Math.min(1, ((Math.max(0, now - began) / 1000) % (SECONDS + REST)) / SECONDS));
    };
    this.frame = requestAnimationFrame(tick);
  }

  pause() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  draw(share) {
    this.share = share;
    const { canvas, view, theory } = this;
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    if (canvas.width !== Math.round(width * scale)) [canvas.width, canvas.height] = [width * scale, height * scale].map(Math.round);
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.frameOf ??= bounds(view);
    const rows = Math.max(2, Math.ceil(share * view.rows));
    const place = placing(this.frameOf, width, height);
    const count = Math.max(1, view.header.group_labels.length);
    if (this.behind) stroke(pen, this.behind, place, "rgba(128,128,128,.55)", 1);
    pen.globalAlpha = 0.16; // all of it, faint, so that there is a picture at any moment
    if (view.kind !== "profile") for (let member = 0; member < view.members; member++) stroke(pen, points(view, member, view.rows), place, groupColor(view.header.groups[member], count), 1.8);
    pen.globalAlpha = 1;
    for (let member = 0; member < view.members; member++) stroke(pen, points(view, member, rows), place, groupColor(view.header.groups[member], count), 1.8);
    pen.setLineDash([4, 3]);
    if (theory && theory.kind === view.kind && theory.size === view.size) {
      const there = view.kind === "profile" ? rows : Math.ceil(share * theory.rows);
      for (let member = 0; member < theory.members; member++) stroke(pen, points(theory, member, there), place, ink(), 0.9);
    }
    pen.setLineDash([]);
  }
}

// The points of a member up to a row: a path, a curve over time, or a profile at that row.
function points(view, member, rows) {
  if (view.kind === "path") return [view.series(member, 0, rows), view.series(member, 1, rows)];
  if (view.kind === "profile") return steps(view.row(member, rows - 1));
  return [view.times.slice(0, rows), view.series(member, 0, rows)];
}

// A profile as steps: a flat piece for each of its numbers.
const steps = (row) => [row.flatMap((_, k) => [k, k + 1]), row.flatMap((value) => [value, value])];

// The range of everything that will be drawn; logarithmic if positive values span three decades.
function bounds(view) {
  const all = Array.from({ length: view.members }, (_, member) => (view.kind === "profile" ? [[0, view.size], Array.from(view.values)] : points(view, member, view.rows)));
  const range = (k) => {
    const values = all.flatMap((one) => one[k]).filter(Number.isFinite);
    return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
  };
  const [x, y] = [range(0), range(1)];
  const log = view.kind === "curve" && y[0] > 0 && y[1] > 1e3 * y[0];
  return { x, y: log ? y.map(Math.log10) : y, log };
}

function placing({ x, y, log }, width, height) {
  const along = (value, [low, high], size) => 12 + ((value - low) / (high - low || 1)) * (size - 24);
  return (a, b) => [along(a, x, width), height - along(log ? Math.log10(b) : b, y, height)];
}

function stroke(pen, [xs, ys], place, color, width) {
  pen.strokeStyle = pen.fillStyle = color;
  pen.lineWidth = width;
  pen.beginPath();
  let [x, y] = [0, 0];
  xs.forEach((value, k) => {
    if (!Number.isFinite(ys[k])) return;
    [x, y] = place(value, ys[k]);
    pen.lineTo(x, y);
  });
  pen.stroke();
  if (width > 1) {
    pen.beginPath();
    pen.arc(x, y, 3, 0, 7);
    pen.fill();
  }
}
