// Who looks at the page, and what the policy allows them. The rules are the server's: nothing here grants anything.

import { call } from "./api.js";

let known = { calls: { "*": false } };

export async function load() {
  known = (await call("session")).session;
  return known;
}

export const signIn = (who) => call("session", who);
export const signOut = () => call("session", undefined, "DELETE");
export const mine = () => known;

// Whether a call of the contract is allowed, such as "operator/stop_instance".
export const may = (name) => known.calls[name] ?? known.calls["*"];
// Hosts, and all else that only administrators have.
export const isAdministrator = () => Boolean(known.calls["*"] && known.sees_all);
