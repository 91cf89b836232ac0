// Calls to /fleet/v1. A failure is an Error whose message is for the user.

const ROOT = new URL("../fleet/v1/", document.baseURI);

export async function call(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(new URL(path, ROOT), { ...options, cache: "no-store" });
  } catch {
    throw new Error("fleet-api does not answer");
  }
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  const [fault] = Object.values(found);
  throw new Error(fault?.message ?? `${answer.status} ${answer.statusText}`);
}

export async function hosts() {
  const { columns, rows } = await call("hosts");
  return rows.map((row) => Object.fromEntries(columns.map((name, place) => [name, row[place]])));
}

export const host = (name) => call(`hosts/${encodeURIComponent(name)}`);
export const builds = (limit) => call(`builds?limit=${limit}`).then((found) => found.builds);
export const trace = (name) => call(`trace/${encodeURIComponent(name)}`);
export const flavors = () => call("flavors").then((found) => found.flavors);
export const use = (hours) => call(`use?hours=${hours}`);
export const explain = (request, best) => call("explain", { request, best });
export const capacity = (request, groupBy) => call("capacity", { request, group_by: groupBy });
