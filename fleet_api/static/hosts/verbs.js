// What may be done with a host: enable, drain.

import { ask } from "../base/api.js";
import { el, note } from "../base/dom.js";
import { may } from "../base/session.js";
import { drain } from "./drain.js";

// current() returns the host as it was read last.
export function verbs(current, after) {
  if (!may("operator/update_service")) return [];
  const { enabled } = current();
  return [
    enabled ? null : el("button", { type: "button", data: { key: "enable" }, onclick: () => enable(current(), after) }, "Enable"),
    el("button", { type: "button", data: { key: "drain" }, onclick: () => drain(current(), after) }, enabled ? "Drain" : "Move instances away"),
  ];
}

async function enable(host, after) {
  try {
    await ask("operator/update_service", { host: host.name, binary: "fleet-compute", disabled: false });
    note(`${host.name} takes builds again`);
    await after();
  } catch (failed) {
    note(failed.message);
  }
}
