// Calls to /fleet/v1. A failure is an Error whose message is for the user.

const ROOT = new URL("../fleet/v1/", document.baseURI);

// The server takes tokens of keystone, and this browser has none that is valid.
export class SignedOut extends Error {}
// No answer, or one that says that the broker or the conductor is away.
export class Away extends Error {}

let number = 0;
// When each request that has no answer yet began, and when the last answer came, whatever it said.
const waiting = new Map();
let answeredAt = Date.now();

export async function call(path, body, method = body === undefined ? "GET" : "POST") {
  const options = { method, cache: "no-store" };
  if (body !== undefined) Object.assign(options, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const mine = number++;
  waiting.set(mine, Date.now());
  try {
    return await answerOf(await fetch(new URL(path, ROOT), options));
  } catch (failed) {
    throw failed instanceof TypeError ? new Away("fleet-api does not answer") : failed;
  } finally {
    waiting.delete(mine);
  }
}

async function answerOf(answer) {
  answeredAt = Date.now();
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  if (answer.headers.get("WWW-Authenticate")?.startsWith("Keystone")) throw new SignedOut("Sign in first");
  const [fault] = Object.values(found);
  // A call has its message beside the name of the error, all other failures within their kind.
  const message = found.message ?? fault?.message ?? `${answer.status} ${answer.statusText}`;
  throw new (answer.status >= 502 && answer.status <= 504 ? Away : Error)(message);
}

// Why a stream is refused: a browser does not tell. Throws what the answer says, and returns if it is no refusal any more.
export async function whyRefused(url) {
  const ending = new AbortController();
  try {
    const answer = await fetch(url, { cache: "no-store", signal: ending.signal });
    if (!answer.ok) await answerOf(answer);
  } catch (failed) {
    throw failed instanceof TypeError ? new Away("fleet-api does not answer") : failed;
  } finally {
    ending.abort();
  }
}

// Milliseconds that the oldest request has waited for its answer; 0 if none waits.
export const waited = () => Math.max(0, ...[...waiting.values()].map((began) => Date.now() - began));

// Milliseconds since the last answer.
export const silent = () => Date.now() - answeredAt;

// A call of the wire contract, as the command makes it, by the same rules.
export const ask = (name, given = {}, more = {}) => call(`calls/${name}`, { arguments: given, ...more }).then((found) => found.result);

export async function hosts() {
  const { columns, rows } = await call("hosts");
  return rows.map((row) => Object.fromEntries(columns.map((name, place) => [name, row[place]])));
}

export const host = (name) => call(`hosts/${encodeURIComponent(name)}`);
export const use = (hours, points = 97) => call(`use?hours=${hours}&points=${points}`);
export const doctor = () => call("doctor").then((found) => found.findings);
export const explain = (request, best) => call("explain", { request, best });
export const capacity = (request, groupBy) => call("capacity", { request, group_by: groupBy });
