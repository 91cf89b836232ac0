// What is stranded: free memory against free vcpus of each host, and how many instances of each flavor still fit per zone.

import * as api from "./api.js";
import { colour, el } from "./dom.js";
import { condition, free, nameOf } from "./hosts.js";

const HEIGHT = 320;
const EDGE = 46;

export function open(view) {
  return new Room(view);
}

class Room {
  lives = false;

  constructor(view) {
    this.points = [];
    this.canvas = el("canvas", { role: "img", ariaLabel: "Free memory against free vcpus, a point for each host",
      onmousemove: (event) => this.hint(event) });
    this.fits = el("section", { className: "panel", id: "fits" }, el("p", { className: "quiet" }, "Counting …"));
    this.again = el("button", { type: "button", onclick: () => this.refresh() }, "Count again");
    view.append(el("div", { className: "bar" }, this.again), el("div", { className: "split" },
      el("section", { className: "panel" }, el("h2", {}, "Free on each host"), this.canvas), this.fits));
  }

  async refresh() {
    this.hosts = (await api.hosts()).filter((each) => condition(each) === "up");
    this.redraw();
    const flavors = await api.flavors();
    const counted = [];
    for (const flavor of flavors) counted.push([flavor, await api.capacity({ flavor: flavor.name }, "zone")]);
    this.table(counted);
    return `${this.hosts.length} hosts, ${flavors.length} flavors`;
  }

  table(counted) {
    const zones = [...new Set(counted.flatMap(([, found]) => found.groups.map((each) => each.name)))].sort();
    const number = (fits) => (fits === null ? "unlimited" : `${fits}`);
    const head = ["flavor", "fits", "first to run out", ...zones].map((title) => el("th", { scope: "col" }, title));
    const rows = counted.map(([flavor, found]) => el("tr", {}, el("td", {}, flavor.name),
      el("td", { className: "number" }, number(found.fits)), el("td", {}, found.binds_first ?? ""),
      zones.map((zone) => el("td", { className: "number" }, number(found.groups.find((each) => each.name === zone)?.fits ?? 0)))));
    this.fits.replaceChildren(el("h2", {}, "How many more instances fit"), counted.length
      ? el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))
      : el("p", { className: "quiet" }, "There are no flavors."));
  }

  redraw() {
    const width = this.canvas.clientWidth;
    if (!width || !this.hosts) return;
    const scale = devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = HEIGHT * scale;
    this.canvas.style.height = `${HEIGHT}px`;
    const to = this.canvas.getContext("2d");
    to.scale(scale, scale);
    const left = this.hosts.map((host) => ({ host, ...free(host) }));
    const most = { x: Math.max(1, ...left.map((each) => each.vcpus)), y: Math.max(1, ...left.map((each) => each.memory_mb)) };
    const x = (vcpus) => EDGE + (width - EDGE - 14) * vcpus / most.x;
    const y = (mb) => HEIGHT - 34 - (HEIGHT - 50) * mb / most.y;
    to.strokeStyle = colour("--line");
    to.fillStyle = colour("--quiet");
    to.font = "12px system-ui, sans-serif";
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      to.beginPath();
      to.moveTo(x(0), y(most.y * part));
      to.lineTo(x(most.x), y(most.y * part));
      to.moveTo(x(most.x * part), y(0));
      to.lineTo(x(most.x * part), y(most.y));
      to.stroke();
      to.fillText(`${Math.round(most.y * part / 1024)}`, 4, y(most.y * part) + 4);
      to.fillText(`${Math.round(most.x * part)}`, x(most.x * part) - 10, HEIGHT - 18);
    }
    to.fillText("free GB of memory", 4, 10);
    to.fillText("free vcpus", width - 74, HEIGHT - 4);
    to.fillStyle = colour("--accent");
    to.globalAlpha = 0.6;
    this.points = left.map((each) => ({ ...each, x: x(each.vcpus), y: y(each.memory_mb) }));
    for (const point of this.points) {
      to.beginPath();
      to.arc(point.x, point.y, 4, 0, 2 * Math.PI);
      to.fill();
    }
    to.globalAlpha = 1;
  }

  hint(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const near = this.points.find((each) => Math.hypot(each.x - event.clientX + left, each.y - event.clientY + top) < 6);
    this.canvas.title = near ? `${nameOf(near.host)}: ${near.vcpus} vcpus, ${Math.round(near.memory_mb)} MB free` : "";
  }
}
