// What administrators have changed, and what builds were accepted: who, when, from what to what.

import { ask } from "../base/api.js";
import { el, empty } from "../base/dom.js";
import { ago } from "../base/moments.js";
import { table } from "../base/table.js";

const MOST = 100;
const COLUMNS = [
  { title: "when", show: (each) => ago(each.created_at) },
  { title: "act", show: (each) => each.act },
  { title: "subject", show: (each) => each.subject },
  { title: "from → to", wide: true, show: (each) => el("span", { className: "quiet" }, changed(each.changes)) },
  { title: "user", show: (each) => each.user_id ?? "" },
  { title: "project", wide: true, show: (each) => each.project_id ?? "" },
];

export async function acts() {
  const found = await ask("operator/list_acts", { limit: MOST });
  return found.length ? table(COLUMNS, found) : empty("Nobody has changed anything yet.");
}

function changed(changes) {
  return Object.entries(changes ?? {}).map(([name, [before, after]]) => `${name}: ${word(before)} → ${word(after)}`).join(", ");
}

const word = (value) => (value === null || value === undefined || value === "" ? "none" : typeof value === "object" ? JSON.stringify(value) : `${value}`);
