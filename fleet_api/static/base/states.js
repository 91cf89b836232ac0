// States as words in the colour of what they mean.

import { el } from "./dom.js";

const GOOD = ["active", "up", "available", "in-use", "success", "begun", "enabled", "completed", "confirmed", "ok"];
const BAD = ["error", "down", "fail", "failed"];
const QUIET = ["stopped", "suspended", "deleted", "gone"];

export function kind(state) {
  if (GOOD.includes(state)) return "good";
  if (BAD.includes(state) || state?.startsWith("error")) return "bad";
  return QUIET.includes(state) ? "quiet" : "wait";
}

export const badge = (state, text = state) => el("span", { className: `badge ${kind(state)}` }, text);

// "active", or what is under way with it.
export const instanceState = (each) => badge(each.task_state ? "wait" : each.vm_state, each.task_state ? `${each.vm_state}: ${each.task_state}` : each.vm_state);
