// Small helpers: elements, numbers that came as text.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// An element whose text the server has rendered, and escaped: code, emphasis, subscripts.
export function prose(tag, html, attributes = {}) {
  const element = h(tag, attributes);
  element.innerHTML = html;
  return element;
}

// A name as words.
export const words = (name) => name.replaceAll("_", " ");

export const byId = (id) => document.getElementById(id);

// Show an error above the page.
export function problem(error) {
  byId("notice").hidden = false;
  byId("notice").textContent = error.message;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter(Boolean));
  return element;
}

// 32-bit floats from base64.
export function decoded(text) {
  const bytes = atob(text);
  const buffer = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) buffer[i] = bytes.charCodeAt(i);
  return new Float32Array(buffer.buffer);
}

const ABOVE = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

// "1.33e-13" as 1.33 × 10⁻¹³.
const powers = (text) => text.replace(/e\+?(-?\d+)$/, (_, power) => ` × 10${[...power].map((sign) => ABOVE[sign]).join("")}`);

export function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en-US").replaceAll(",", "\u202f");
  const size = Math.abs(value);
  return (size >= 1e-3 && size < 1e6 ? String(Number(value.toPrecision(4))) : powers(value.toExponential(2))).replace("-", "−");
}

export function copyButton(text) {
  const button = h("button", { type: "button", class: "plain", onclick: async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return button;
}

// A labeled select; `options` are texts or [value, text] pairs.
export function choice(label, options, value, onchange) {
  const id = `choice-${label.replace(/\W+/g, "-")}`;
  const select = h("select", { id, onchange: () => onchange(select.value) }, options.map((option) => {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    return h("option", { value: key }, text);
  }));
  select.value = value ?? "";
  return h("div", { class: "field" }, h("label", { for: id }, label), select);
}

// An element of a drawing.
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}
