// The address of an experiment with its knobs: `#/run/ID?preset=quick&control=1&seed=2&set=rate=0.9`, as the command has them.

// The part behind `#/run/ID` for what a form asks for; the preset only where it is not the usual one.
export function knobs({ preset, control, seed, changes }, usual) {
  const found = new URLSearchParams();
  if (preset !== usual) found.set("preset", preset);
  if (control) found.set("control", "1");
  if (seed && seed !== "0") found.set("seed", seed);
  for (const [name, value] of Object.entries(changes)) found.append("set", `${name}=${value}`);
  const text = found.toString();
  return text && `?${text}`;
}

// The settings in the part of an address behind the `?`; undefined if there are none.
export function settings(text) {
  if (!text) return undefined;
  const found = new URLSearchParams(text);
  const changes = Object.fromEntries(found.getAll("set").map((one) => one.match(/^([^=]*)=?(.*)$/s).slice(1)));
  return { preset: found.get("preset") ?? undefined, control: found.get("control") === "1", seed: found.get("seed") ?? 0, changes };
}
