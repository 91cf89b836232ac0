// Calls to /fleet/v1. A failure is an Error whose message is for the user.

const ROOT = new URL("../fleet/v1/", document.baseURI);

// The server takes tokens of keystone, and this browser has none that is valid.
export class SignedOut extends Error {}

export async function call(path, body, method = body === undefined ? "GET" : "POST") {
  const options = { method };
  if (body !== undefined) Object.assign(options, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  let answer;
  try {
    answer = await fetch(new URL(path, ROOT), { ...options, cache: "no-store" });
  } catch {
    throw new Error("fleet-api does not answer");
  }
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  const [fault] = Object.values(found);
  const Kind = answer.headers.get("WWW-Authenticate")?.startsWith("Keystone") ? SignedOut : Error;
  throw new Kind(fault?.message ?? `${answer.status} ${answer.statusText}`);
}

export async function hosts() {
  const { columns, rows } = await call("hosts");
  return rows.map((row) => Object.fromEntries(columns.map((name, place) => [name, row[place]])));
}

export const session = () => call("session").then((found) => found.session);
export const signIn = (known) => call("session", known);
export const signOut = () => call("session", undefined, "DELETE");
export const host = (name) => call(`hosts/${encodeURIComponent(name)}`);
export const builds = (limit) => call(`builds?limit=${limit}`).then((found) => found.builds);
export const trace = (name) => call(`trace/${encodeURIComponent(name)}`);
export const flavors = () => call("flavors").then((found) => found.flavors);
export const use = (hours) => call(`use?hours=${hours}`);
export const explain = (request, best) => call("explain", { request, best });
export const capacity = (request, groupBy) => call("capacity", { request, group_by: groupBy });
