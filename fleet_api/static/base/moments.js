// Times, as the reader's clock and language have them.

import { el } from "./dom.js";

const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const words = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });

// An ISO time in UTC, also where it does not say so.
export const at = (text) => new Date(/Z|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`);

export const moment = (text) => (text ? at(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "");
export const clock = (date) => date.toLocaleTimeString(undefined, { timeStyle: "medium" });

// "3 min. ago", with the time itself as its title.
export function ago(text) {
  if (!text) return "";
  const seconds = (at(text).getTime() - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  // Seconds would change with every look.
  const shown = Math.abs(seconds) < 10 ? "just now" : words.format(unit === "second" ? Math.trunc(seconds / 10) * 10 : Math.trunc(seconds / size), unit);
  return el("time", { dateTime: at(text).toISOString(), title: moment(text), className: "nowrap" }, shown);
}

// 75 s, 3 min, 2 h
export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 129600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}
