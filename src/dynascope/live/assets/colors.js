// The colors of plots, in the light and in the dark.

const CATEGORIES = ["#d1495b", "#00798c", "#edae49", "#66508f"];
const RAMP = [[68, 57, 131], [49, 104, 142], [33, 145, 140], [53, 183, 121], [160, 180, 40]];
const RAMP_DARK = [[138, 128, 214], [95, 160, 205], [60, 185, 180], [90, 205, 140], [215, 210, 90]];
export const OTHERS = ["#c05a00", "#7a5195", "#2f7d32", "#b0306a", "#5d6d7e"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");

export const onThemeChange = (redraw) => dark.addEventListener("change", redraw);

export function groupColor(group, count) {
  if (count <= 4) return dark.matches ? ["#ff8b98", "#4fc3d4", "#f2c46d", "#b6a1e0"][group % 4] : CATEGORIES[group % 4];
  const ramp = dark.matches ? RAMP_DARK : RAMP;
  const at = (group / (count - 1)) * (ramp.length - 1);
  const low = Math.min(Math.floor(at), ramp.length - 2);
  const mix = ramp[low].map((value, k) => Math.round(value + (at - low) * (ramp[low + 1][k] - value)));
  return `rgb(${mix.join(",")})`;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const ink = () => css("--ink");

export function layout(extra = {}) {
  const axis = {
    gridcolor: css("--rule"), linecolor: css("--soft"), zerolinecolor: css("--rule"), tickcolor: css("--soft"),
    ticks: "outside", ticklen: 3, exponentformat: "power",
  };
  const { xaxis = {}, yaxis = {}, ...rest } = extra;
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { family: css("--sans"), size: (12 * parseFloat(getComputedStyle(document.documentElement).fontSize)) / 16, color: css("--ink") }, margin: { l: 46, r: 14, t: 10, b: 46 },
    hoverlabel: { bgcolor: css("--sheet"), bordercolor: css("--rule"), font: { color: css("--ink") } },
    xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, automargin: true, ...yaxis }, ...rest,
  };
}

export const SCALE = [[0, "#443983"], [0.25, "#31688e"], [0.5, "#21918c"], [0.75, "#5ec962"], [1, "#fde725"]];
export const SHARES = [[0, "#a8201a"], [0.5, "#edc374"], [1, "#22684a"]];
export const config = { displaylogo: false, responsive: true, displayModeBar: false };
