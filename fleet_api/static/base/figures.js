// Numbers, and bars of how much is used.

import { el } from "./dom.js";

// From which share of a limit on something counts as much used, and as full.
export const MUCH = 0.75;
export const FULL = 0.9;

export const number = (value) => Math.round(value).toLocaleString("en");
// 10,000, but 1M: for axes.
const compact = new Intl.NumberFormat("en", { notation: "compact" });
export const short = (value) => (value < 100000 ? number(value) : compact.format(value));
export const percent = (share) => `${Math.round(100 * share)} %`;
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

// MB, GB, TB or PB, by their size.
export function memory(mb) {
  if (mb < 1024) return `${Math.round(mb)} MB`;
  return disk(mb / 1024);
}

export function disk(gb) {
  if (gb < 1024) return `${trimmed(gb, gb < 10 ? 1 : 0)} GB`;
  if (gb < 1048576) return `${trimmed(gb / 1024, gb < 10240 ? 1 : 0)} TB`;
  return `${trimmed(gb / 1048576, 1)} PB`;
}

const trimmed = (value, digits) => value.toFixed(digits).replace(/\.0$/, "");

export const level = (share) => (share > FULL ? "full" : share > MUCH ? "much" : "");

// A bar of one share, or of parts with names of their colours. Its text is beside it, so it says nothing to screen readers.
export function useBar(parts) {
  const bar = el("div", { className: "use", ariaHidden: "true" });
  for (const [share, kind] of Array.isArray(parts) ? parts : [[parts, level(parts)]]) {
    if (!share) continue;
    const part = el("i", { className: kind });
    part.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
    bar.append(part);
  }
  return bar;
}
