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
  filter.hidden = false;
  filter.addEventListener("input", show);
  filter.addEventListener("submit", (event) => event.preventDefault());
  show();
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
