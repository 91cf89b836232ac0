// Free memory against free vcpus: hosts at one place are one dot, whose area is their number.

import { drawing, hover, inks, roundUp } from "../base/canvas.js";
import { el } from "../base/dom.js";
import { memory, number, plural } from "../base/figures.js";
import { nameOf, room } from "../base/hosts.js";

const HEIGHT = 340;
const EDGE = { left: 66, right: 24, top: 26, bottom: 40 };
// Hosts whose dots would cover each other are one.
const CELL = 16;
const LEAST = 4;
const LARGEST = 22;
const NAMED = 8;

export class Dots {
  constructor() {
    this.dots = [];
    this.canvas = el("canvas", { role: "img", ariaLabel: "Free memory against free vcpus; the area of a dot is the number of hosts there",
      onmousemove: (event) => this.hint(event), onmouseleave: () => this.word.show("") });
    this.word = hover(this.canvas);
    this.place = this.word.place;
  }

  draw(hosts = this.hosts) {
    const width = this.canvas.clientWidth;
    if (!width || !hosts) return;
    this.hosts = hosts;
    const left = hosts.map((host) => ({ host, vcpus: room(host, "vcpus").free, memory: room(host, "memory_mb").free }));
    this.x = axis(left.map((each) => each.vcpus), EDGE.left, width - EDGE.right, 1);
    this.y = axis(left.map((each) => each.memory), HEIGHT - EDGE.bottom, EDGE.top, 1024);
    this.to = drawing(this.canvas, width, HEIGHT);
    this.ink = inks();
    this.grid(width);
    this.dots = merged(left.map((each) => ({ ...each, x: this.x.at(each.vcpus), y: this.y.at(each.memory) })));
    const most = Math.max(1, ...this.dots.map((each) => each.hosts.length));
    for (const dot of this.dots) this.dot(dot, most);
  }

  grid(width) {
    const { to, ink, x, y } = this;
    to.strokeStyle = ink.line;
    to.fillStyle = ink.quiet;
    for (const value of x.ticks) {
      rule(to, x.at(value), EDGE.top, x.at(value), HEIGHT - EDGE.bottom);
      to.textAlign = "center";
      to.fillText(number(value), x.at(value), HEIGHT - EDGE.bottom + 12);
    }
    for (const value of y.ticks) {
      rule(to, EDGE.left, y.at(value), width - EDGE.right, y.at(value));
      to.textAlign = "right";
      to.fillText(memory(value), EDGE.left - 8, y.at(value));
    }
    to.textAlign = "left";
    to.fillText("free memory", 4, 9);
    to.textAlign = "right";
    to.fillText("free vcpus", width - EDGE.right, HEIGHT - 8);
    to.textAlign = "left";
  }

  dot(dot, most) {
    const { to, ink } = this;
    dot.radius = Math.max(LEAST, LARGEST * Math.sqrt(dot.hosts.length / Math.max(most, 12)));
    to.globalAlpha = 0.6;
    to.fillStyle = ink.used;
    to.beginPath();
    to.arc(dot.x, dot.y, dot.radius, 0, 2 * Math.PI);
    to.fill();
    to.globalAlpha = 1;
    to.strokeStyle = ink.accent;
    to.stroke();
    const text = number(dot.hosts.length);
    if (dot.hosts.length < 2) return;
    to.fillStyle = ink.text;
    to.textAlign = "center";
    const inside = to.measureText(text).width < 2 * dot.radius - 4;
    to.fillText(text, dot.x, inside ? dot.y : dot.y - dot.radius - 8);
    to.textAlign = "left";
  }

  hint(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const near = this.dots.find((each) => Math.hypot(each.x - event.clientX + left, each.y - event.clientY + top) < each.radius + 3);
    if (!near) return this.word.show("");
    const names = near.hosts.slice(0, NAMED).map((each) => nameOf(each.host)).join(", ");
    const more = near.hosts.length > NAMED ? ` and ${number(near.hosts.length - NAMED)} more` : "";
    const [first] = near.hosts;
    this.word.show(`${plural(near.hosts.length, "host")}: about ${number(first.vcpus)} vcpus and ${memory(first.memory)} free\n${names}${more}`, event);
  }
}

// A scale from a little below the least value to a little above the most; from zero if the least is near it.
function axis(values, from, to, unit) {
  const [least, most] = [Math.min(...values), Math.max(...values, 0)];
  const span = Math.max(most - least, most * 0.05, unit);
  const step = roundUp(span / unit / 4) * unit;
  const low = !Number.isFinite(least) || least < span ? 0 : Math.max(0, Math.floor((least - span * 0.1) / step) * step);
  const high = Math.max(Math.ceil((most + span * 0.02) / step) * step, low + step);
  const ticks = [];
  for (let value = low; value <= high + step / 2; value += step) ticks.push(value);
  return { at: (value) => from + (to - from) * (value - low) / (high - low), ticks };
}

function merged(points) {
  const found = new Map();
  for (const point of points) {
    const key = `${Math.round(point.x / CELL)} ${Math.round(point.y / CELL)}`;
    if (!found.has(key)) found.set(key, { x: 0, y: 0, hosts: [] });
    const dot = found.get(key);
    dot.hosts.push(point);
    dot.x += (point.x - dot.x) / dot.hosts.length;
    dot.y += (point.y - dot.y) / dot.hosts.length;
  }
  // Small dots lie on large ones.
  return [...found.values()].sort((one, other) => other.hosts.length - one.hosts.length);
}

function rule(to, x1, y1, x2, y2) {
  to.beginPath();
  to.moveTo(x1, y1);
  to.lineTo(x2, y2);
  to.stroke();
}
