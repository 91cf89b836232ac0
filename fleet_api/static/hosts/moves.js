// Moves away from a host that is drained: those that have ended wait to be confirmed, and hold their room until then.

import { ask } from "../base/api.js";
import { el, link, note, panel } from "../base/dom.js";
import { plural } from "../base/figures.js";
import { to } from "../base/route.js";
import { may } from "../base/session.js";
import { badge } from "../base/states.js";
import { table } from "../base/table.js";

const ENDED = ["confirmed", "reverted", "done", "completed", "cancelled", "error"];
const FINISHED = "finished";
// Those that are under way are among the newest.
const NEWEST = 1000;
const COLUMNS = [
  { title: "instance", show: (each) => link(to("instances", [each.instance_uuid]), each.instance_uuid.slice(0, 8)) },
  { title: "kind", show: (each) => each.migration_type },
  { title: "status", show: (each) => badge(each.status === FINISHED ? "wait" : each.status, each.status === FINISHED ? "waits to be confirmed" : each.status) },
  { title: "to", show: (each) => each.dest_compute ?? "" },
];

// Those under way, and those that wait; of a host that takes builds nobody asks.
export async function movesFrom(host, isEnabled) {
  if (isEnabled || !may("operator/list_migrations")) return [];
  const found = await ask("operator/list_migrations", { filters: { host }, limit: NEWEST });
  return found.filter((each) => each.source_compute === host && !ENDED.includes(each.status));
}

// A move to another flavor is its user's to confirm.
const waitingOf = (found) => found.filter((each) => each.status === FINISHED && !each.resized);

// current() returns the moves as they were read last.
export function moves(current, after) {
  const found = current();
  if (!found.length) return null;
  const waiting = waitingOf(found);
  return panel("Moves away", table(COLUMNS, found), waiting.length && may("operator/confirm_resize")
    ? el("button", { type: "button", className: "main", data: { key: "confirm" }, onclick: () => confirmAll(waitingOf(current()), after) }, `Confirm ${plural(waiting.length, "move")}`) : null);
}

async function confirmAll(waiting, after) {
  const refused = [];
  for (const each of waiting) await ask("operator/confirm_resize", { name: each.instance_uuid }).catch((failed) => refused.push(failed.message));
  note(refused.length ? refused.join(" ") : `${plural(waiting.length, "move")} confirmed`);
  await after().catch(() => {});
}
