// Conveniences only: every page reads the same without them.
"use strict";

const filter = document.querySelector(".filter");
if (filter) {
  const cards = [...document.querySelectorAll("[data-text]")];
  const systems = [...document.querySelectorAll(".system")];
  const nothing = document.querySelector(".nothing");
  const show = () => {
    const words = filter.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdict = filter.elements.verdict.value;
    for (const card of cards) {
      const matches = words.every((word) => card.dataset.text.includes(word));
      card.hidden = !matches || !(verdict === "" || card.dataset.verdicts.split(" ").includes(verdict));
    }
    for (const system of systems) system.hidden = !system.querySelector("[data-text]:not([hidden])");
    const shown = cards.filter((card) => !card.hidden).length;
    nothing.hidden = shown > 0;
    filter.querySelector("output").value = shown === cards.length ? "" : `${shown} of ${cards.length} shown`;
  };
  // The address holds what is shown, so that it can be sent, reloaded and gone back to.
  const read = () => {
    const state = new URLSearchParams(location.search);
    filter.elements.words.value = state.get("words") ?? "";
    const wanted = filter.querySelector(`[name=verdict][value="${CSS.escape(state.get("verdict") ?? "")}"]`);
    (wanted ?? filter.querySelector("[name=verdict]")).checked = true;
    show();
  };
  let typing = false; // one entry of the history for a word, not for each letter
  const write = (event) => {
    const state = new URLSearchParams();
    for (const name of ["words", "verdict"]) {
      const value = filter.elements[name].value.trim();
      if (value) state.set(name, value);
    }
    const address = state.size ? `?${state}` : location.pathname;
    const letter = event.target.name === "words";
    history[letter && typing ? "replaceState" : "pushState"](null, "", address);
    typing = letter;
  };
  filter.hidden = false;
  filter.addEventListener("input", (event) => { show(); write(event); });
  filter.addEventListener("focusout", () => { typing = false; });
  filter.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("popstate", () => { typing = false; read(); });
  addEventListener("pageshow", read);
  read();
}

// The interactive figure: Plotly and the figure's data are loaded when somebody asks for them.
const load = (address) => new Promise((resolve, reject) => {
  const script = document.createElement("script");
  script.src = address;
  script.addEventListener("load", () => resolve(script));
  script.addEventListener("error", () => reject(new Error(`${address} cannot be loaded`)));
  document.head.append(script);
});
const unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const script = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  await load(address).finally(() => URL.revokeObjectURL(address));
};
for (const button of document.querySelectorAll("[data-figure]")) {
  const figure = button.closest("figure");
  const still = figure.querySelector(".sheet");
  let moving = null;
  const make = async () => {
    const { data, layout } = (await load(button.dataset.figure)).figure;
    if (!window.Plotly) await unpack((await load(button.dataset.plotly)).packed);
    const sheet = document.createElement("div");
    sheet.className = "sheet moving";
    const place = document.createElement("div");
    sheet.append(place);
    still.after(sheet);
    still.hidden = true;
    const style = getComputedStyle(sheet);
    const room = sheet.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const width = Math.min(Math.max(room, layout.width), 1.25 * layout.width); // narrower it would overlap: it scrolls
    const sized = { ...layout, width, height: (layout.height * width) / layout.width };
    await window.Plotly.newPlot(place, data, sized, { displaylogo: false });
    return sheet;
  };
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      if (moving) {
        still.hidden = !still.hidden;
        moving.hidden = !still.hidden;
      } else {
        button.textContent = "Loading …";
        moving = await make();
      }
      button.textContent = still.hidden ? "Still" : "Interactive";
    } catch {
      still.hidden = false;
      figure.querySelector(".moving")?.remove();
      button.textContent = "Interactive: could not be loaded";
    }
    button.disabled = false;
  });
}

for (const button of document.querySelectorAll("[data-copy]")) {
  const text = button.parentElement.querySelector("code");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text); // no clipboard here: leave it selected
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
}
