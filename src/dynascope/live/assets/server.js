// Requests to the server, each with the token of the printed address in a header.

const KEY = "dynascope-token";

// Take the token out of the address, `#token=...` with a place such as `/run/...` behind it; whether there was one.
// It is kept for this tab alone, also over a reload.
export function takeToken() {
  const [found, token, place] = location.hash.match(/^#token=([\w-]+)(.*)$/) || [];
  if (!found) return false;
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", `${location.pathname}${place && `#${place}`}`);
  return true;
}

// The server's response, or an error with its line, its status and a line for each field.
export async function request(path, options = {}) {
  const headers = { ...options.headers, "x-dynascope-token": sessionStorage.getItem(KEY) || "" };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw Object.assign(new Error("The server does not answer."), { status: 0, fields: {} });
  }
  if (!response.ok) {
    const text = await response.text();
    let said = {};
    try { said = JSON.parse(text); } catch { said = { error: text }; }
    throw Object.assign(new Error(said.error || response.statusText), { status: response.status, fields: said.fields || {} });
  }
  return response;
}

// What the server answers, as a value; a request with a body changes something.
export async function ask(path, body = undefined) {
  const options = { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  return (await request(path, body === undefined ? {} : options)).json();
}

export const pathOf = (...parts) => "/api/" + parts.map(encodeURIComponent).join("/");

// An address inside the page for a file of the server: images and links cannot send the token.
export async function fileAddress(path) {
  return URL.createObjectURL(await (await request(path)).blob());
}

// Download a file of the server, under the name that it gives.
export async function download(path) {
  const response = await request(path);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = response.headers.get("content-disposition")?.match(/filename="([^"]*)"/)?.[1] || decodeURIComponent(path.split("/").at(-1));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
