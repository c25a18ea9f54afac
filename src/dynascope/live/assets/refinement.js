// A small graph whose colors are refined, round after round: two nodes get the same color while nothing tells them apart.

import { groupColor, ink, onThemeChange } from "./colors.js";

const NODES = [[0.08, 0.3], [0.08, 0.7], [0.25, 0.5], [0.42, 0.5], [0.57, 0.22], [0.57, 0.78], [0.74, 0.22], [0.74, 0.78], [0.92, 0.22], [0.92, 0.78]]; // places, as shares of the width and the height
const EDGES = [[0, 2], [1, 2], [2, 3], [3, 4], [3, 5], [4, 6], [5, 7], [6, 7], [6, 8], [7, 9], [4, 5]];
const SECONDS = 1.4; // of a round
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

// The colors after each round, until there are no more of them; equal colors are equal numbers.
export function rounds(count, edges) {
  const beside = Array.from({ length: count }, (_, node) => edges.flatMap(([a, b]) => (a === node ? [b] : b === node ? [a] : [])));
  const numbered = (names) => names.map((name) => [...new Set(names)].indexOf(name));
  const found = [Array(count).fill(0)];
  for (;;) {
    const last = found.at(-1);
    const next = numbered(last.map((color, node) => `${color}: ${beside[node].map((other) => last[other]).sort((a, b) => a - b)}`));
    if (new Set(next).size === new Set(last).size) return found;
    found.push(next);
  }
}

export class Refinement {
  constructor(canvas) {
    this.canvas = canvas;
    this.rounds = rounds(NODES.length, EDGES);
    this.round = this.rounds.length - 1;
    new IntersectionObserver(([entry]) => (entry.isIntersecting ? this.play() : clearInterval(this.timer))).observe(canvas);
    onThemeChange(() => this.draw());
  }

  play() {
    this.draw();
    clearInterval(this.timer);
    if (still.matches) return;
    this.timer = setInterval(() => {
      this.round = (this.round + 1) % (this.rounds.length + 1); // the last one stays twice as long
      this.draw();
    }, 1000 * SECONDS);
  }

  draw() {
    const { canvas } = this;
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    [canvas.width, canvas.height] = [width * scale, height * scale].map(Math.round);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const round = Math.min(this.round, this.rounds.length - 1);
    const colors = this.rounds[round], count = Math.max(...this.rounds.at(-1)) + 1;
    const place = ([x, y]) => [width * x, 8 + (height - 34) * y];
    pen.strokeStyle = "rgba(128,128,128,.6)";
    pen.lineWidth = 1.6;
    for (const pair of EDGES) {
      pen.beginPath();
      pair.forEach((node) => pen.lineTo(...place(NODES[node])));
      pen.stroke();
    }
    NODES.forEach((node, k) => {
      pen.beginPath();
      pen.arc(...place(node), 9, 0, 7);
      pen.fillStyle = groupColor(colors[k], count);
      pen.fill();
    });
    pen.fillStyle = ink();
    pen.font = "12px system-ui, sans-serif";
    const several = new Set(colors).size;
    pen.fillText(`refinement, round ${round}: ${several} ${several === 1 ? "color" : "colors"}`, 10, height - 8);
  }
}
