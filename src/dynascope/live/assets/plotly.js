// Plotly's script is large: the page does not wait for it, only plots do.

const script = document.querySelector("script[src$='plotly.min.js']");

export const plotly = new Promise((done) => (window.Plotly ? done() : script.addEventListener("load", () => done())));
