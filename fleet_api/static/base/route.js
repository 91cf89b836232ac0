// The fragment of the address: #view/name?search=…. Views keep there what a link to them should show again.

const FORMER = { builds: "instances", explain: "boot" };

export function read() {
  const [path, query] = location.hash.slice(1).split("?");
  const [name, ...rest] = path.split("/");
  return { name: FORMER[name] ?? name, rest: rest.map(decoded), query: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

export function to(name, rest = [], query = {}) {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  const path = [name, ...rest.map(encodeURIComponent)].join("/");
  return `#${path}${given.size ? `?${given}` : ""}`;
}

// Change the address without opening the view anew.
export const keep = (...where) => history.replaceState(null, "", to(...where));
export const go = (...where) => { location.hash = to(...where); };

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
