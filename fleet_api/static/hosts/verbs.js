// What may be done with a host: enable, drain.

import { ask } from "../base/api.js";
import { el, note } from "../base/dom.js";
import { may } from "../base/session.js";
import { drain } from "./drain.js";

export function verbs(host, after) {
  if (!may("operator/update_service")) return [];
  return [
    host.enabled ? null : el("button", { type: "button", data: { key: "enable" }, onclick: () => enable(host, after) }, "Enable"),
    el("button", { type: "button", data: { key: "drain" }, onclick: () => drain(host, after) }, host.enabled ? "Drain" : "Move instances away"),
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
