// What has happened to an instance or a volume, the newest first.

import { el, empty } from "../base/dom.js";
import { ago, duration } from "../base/moments.js";

export function timeline(events, faults = []) {
  const lines = [...events, ...faults.map((each) => ({ ...each, event: "fault", result: each.error }))];
  lines.sort((one, other) => (one.created_at < other.created_at ? 1 : -1));
  if (!lines.length) return empty("Nothing has happened yet.");
  return el("ol", { className: "timeline" }, lines.map((each) => el("li", { className: isGood(each) ? "" : "bad-step" },
    el("strong", {}, each.event), " ", isGood(each) ? null : el("span", { className: "bad" }, `${each.result} `),
    each.host ? `on ${each.host} ` : "", el("span", { className: "quiet" }, ago(each.created_at),
      each.duration_s ? `, took ${duration(each.duration_s)}` : ""), each.message ? el("div", { className: "quiet" }, each.message) : null)));
}

const isGood = (each) => ["success", "begun"].includes(each.result);
