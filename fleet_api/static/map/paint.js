// Draws one host: a tile as wide as its limit, with a block for each instance as wide as its part of the limit.

import { level, percent } from "../base/figures.js";
import { condition, nameOf, room } from "../base/hosts.js";

const NAME = 17;
// Below this width instances are one bar.
export const BLOCKS_FROM = 44;

// map: by (a resource), blocks (of this host), coloured, ink. Sets place.blocks: what the pointer meets.
export function paint(to, place, { wide, high }, { by, blocks, coloured, ink, chosen, dim }) {
  const { host, x, y } = place;
  const state = condition(host);
  const { limit, share } = room(host, by);
  const named = high >= 2 * NAME && wide >= 60;
  const top = named ? y + NAME : y;
  const tall = y + high - top;
  to.globalAlpha = dim ? 0.25 : 1;
  to.fillStyle = state === "down" ? ink.down : ink.free;
  to.fillRect(x, y, wide, high);
  place.blocks = [];
  if (blocks && wide >= BLOCKS_FROM && limit) paintBlocks(to, place, { x, top, wide, tall }, { by, blocks, coloured, ink, limit, share });
  else {
    to.fillStyle = coloured && blocks?.length ? ink[coloured.of(blocks[0])] : ink[level(share) || "used"];
    to.fillRect(x, top, wide * Math.min(share, 1), tall);
  }
  if (wide > 100) physical(to, host, by, { x, top, wide, tall, ink, limit });
  if (named) title(to, host, state, share, place, wide, ink);
  frame(to, place, wide, high, state, chosen, ink);
  to.globalAlpha = 1;
}

function paintBlocks(to, place, { x, top, wide, tall }, { by, blocks, coloured, ink, limit, share }) {
  let left = x;
  const full = ink[level(share) || "used"];
  for (const each of blocks) {
    const part = Math.max(1.5, wide * each[by] / limit);
    const shown = Math.min(part, x + wide - left);
    if (shown <= 0) break;
    to.fillStyle = coloured ? ink[coloured.of(each)] : full;
    to.fillRect(left, top + 1, Math.max(shown - 1, 1), tall - 2);
    place.blocks.push({ block: each, x: left, wide: shown });
    word(to, each.name, left, top, shown, tall, ink);
    left += shown;
  }
}

function word(to, text, x, y, wide, tall, ink) {
  if (tall < 18 || wide < 34) return;
  const size = to.measureText(text).width;
  if (size > wide - 10) return;
  to.fillStyle = ink.raised;
  to.fillRect(x + 3, y + tall / 2 - 8, size + 4, 16);
  to.fillStyle = ink.text;
  to.fillText(text, x + 5, y + tall / 2 + 1);
}

// Where what is physically there ends, and overcommitment begins.
function physical(to, host, by, { x, top, wide, tall, ink, limit }) {
  const [total, reserved] = { vcpus: [host.vcpus, host.reserved_vcpus], memory_mb: [host.memory_mb, host.reserved_memory_mb],
    disk_gb: [host.local_gb, host.reserved_disk_gb] }[by];
  const share = limit ? (total - reserved) / limit : 1;
  if (share >= 0.995 || share <= 0) return;
  to.fillStyle = ink.quiet;
  to.fillRect(x + wide * share, top, 1, tall);
}

function title(to, host, state, share, { x, y }, wide, ink) {
  to.fillStyle = state === "down" ? ink.back : ink.text;
  to.font = "600 12px system-ui, sans-serif";
  const right = state === "up" ? percent(share) : state;
  const size = to.measureText(right).width;
  const name = nameOf(host);
  if (to.measureText(name).width + size + 18 < wide) {
    to.fillText(right, x + wide - size - 5, y + 9);
    to.fillText(name, x + 5, y + 9);
  } else if (to.measureText(name).width + 8 < wide) to.fillText(name, x + 5, y + 9);
  to.font = "12px system-ui, sans-serif";
}

function frame(to, { x, y }, wide, high, state, chosen, ink) {
  if (state === "disabled") {
    to.setLineDash(wide > 20 ? [4, 3] : []);
    to.strokeStyle = ink.wait;
    to.lineWidth = wide > 20 ? 2 : 1;
    to.strokeRect(x + 1, y + 1, wide - 2, high - 2);
    to.setLineDash([]);
  }
  if (chosen) {
    to.strokeStyle = ink.accent;
    to.lineWidth = 3;
    to.strokeRect(x + 1.5, y + 1.5, wide - 3, high - 3);
  }
}
