// Plotly's script is large, and its first second is spent on itself: it begins when the page has been painted.

let loading = null;

export function plotly() {
  loading ??= new Promise((done) => {
    const script = document.createElement("script");
    script.src = "/assets/plotly.min.js";
    script.addEventListener("load", () => done());
    requestAnimationFrame(() => setTimeout(() => document.head.append(script)));
  });
  return loading;
}
