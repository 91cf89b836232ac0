// What the colour of a block says: how full its host is, or its group, project or label.

import { el } from "../base/dom.js";
import { FULL, MUCH, percent } from "../base/figures.js";

const KINDS = 8;
export const COLOURS = [["use", "Use"], ["group", "Group"], ["project", "Project"], ["label", "Label"], ["survival", "Survival"]];
const KEYS = { group: (each) => each.group_uuid, project: (each) => each.project_id, label: (each) => each.label };

// names: of groups by uuid; promises: what the scheduler has proved of them. Returns of(block) → the name of an ink, and the
// values in the order of the inks.
export function colouring(colour, blocks, names, promises) {
  if (colour === "survival") return survival(promises);
  const key = KEYS[colour];
  if (!key) return null;
  const counts = new Map();
  for (const each of blocks) if (key(each)) counts.set(key(each), (counts.get(key(each)) ?? 0) + 1);
  const values = [...counts].sort(([one, ones], [other, others]) => others - ones || (one < other ? -1 : 1)).map(([value]) => value);
  const place = new Map(values.slice(0, KINDS).map((value, number) => [value, number]));
  return {
    of: (block) => (place.has(key(block)) ? `kind-${place.get(key(block))}` : "kind-none"),
    rank: (block) => place.get(key(block)) ?? KINDS,
    legend: [...[...place].map(([value, number]) => [`kind-${number}`, `${colour === "group" ? names[value] ?? value : value} (${counts.get(value)})`]),
      ["kind-none", values.length > KINDS ? `none, or one of ${values.length - KINDS} others` : `no ${colour}`]],
  };
}

// Guests that have no place if their host, or its rack, was lost.
function survival(promises) {
  if (!promises) return { of: () => "kind-none", rank: () => 0, legend: [["kind-none", "nothing is promised: see fleet tolerance set"]] };
  const homeless = new Set(promises["guests without a place"]);
  const unproved = new Set(promises["hosts without a proof"]);
  const rank = (each) => (homeless.has(each.uuid) ? 0 : unproved.has(each.host) ? 1 : 2);
  return { rank, of: (each) => ["full", "much", "used"][rank(each)], legend: [["full", `no place after a loss (${promises["unprotected guests"]})`],
    ["much", "not proved"], ["used", "a place is kept, or nothing is promised"]] };
}

export function legend(coloured, ink) {
  const used = [["used", `up to ${percent(MUCH)} of the limit`], ["much", `up to ${percent(FULL)}`], ["full", `over ${percent(FULL)}`]];
  const lines = [...(coloured?.legend ?? used), ["free", "free"], ["down", "down"]];
  return el("ul", { className: "legend" }, lines.map(([name, text]) => {
    const sample = el("i", {});
    sample.style.background = ink[name];
    return el("li", {}, sample, text);
  }), el("li", {}, "dashed frame: disabled"), el("li", {}, "thin line: physical amount"));
}
