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

export function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en-US").replaceAll(",", "\u202f");
  const size = Math.abs(value);
  return (size >= 1e-3 && size < 1e6 ? String(Number(value.toPrecision(4))) : value.toExponential(2)).replace("-", "−");
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
