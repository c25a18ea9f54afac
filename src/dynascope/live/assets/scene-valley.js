// The valley of (xy - 1)²/2 under an orbit of its two factors.

const POINTS = 60;

export function valley(data) {
  const range = (key) => {
    const values = data.flatMap((line) => Array.from(line[key])).filter(Number.isFinite);
    const low = Math.min(0.4, ...values), high = Math.max(1.6, ...values);
    return Array.from({ length: POINTS }, (_, k) => low - 0.1 + ((high - low + 0.2) * k) / (POINTS - 1));
  };
  const [x, y] = [range("x"), range("y")];
  const z = y.map((b) => x.map((a) => Math.log10((a * b - 1) ** 2 / 2 + 1e-3)));
  const minima = x.filter((a) => a > 0 && 1 / a >= y[0] && 1 / a <= y.at(-1));
  return [
    { type: "contour", x, y, z, showscale: false, hoverinfo: "skip", contours: { coloring: "heatmap" }, ncontours: 12, line: { width: 0.4, color: "rgba(120,130,150,.45)" },
      colorscale: [[0, "rgba(60,130,190,.42)"], [0.5, "rgba(60,130,190,.16)"], [1, "rgba(60,130,190,.02)"]] },
    { type: "scatter", mode: "lines", x: minima, y: minima.map((a) => 1 / a), line: { color: "rgba(120,130,150,.9)", width: 1.5, dash: "dot" }, name: "minima: xy = 1", hoverinfo: "name" },
  ];
}
