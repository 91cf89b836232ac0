// The fleet map: a rectangle for each host, as wide as its vcpus, filled by what is used; grouped by zone.

import * as api from "./api.js";
import { colour, el, facts, gigabytes } from "./dom.js";
import { byName, condition, nameOf, shares } from "./hosts.js";

const GAP = 2;
const TITLE = 22;
const LEAST = 6;

export function open(view, [chosen]) {
  return new Map_(view, chosen);
}

class Map_ {
  lives = true;

  constructor(view, chosen) {
    this.hosts = [];
    this.places = [];
    this.chosen = chosen ?? null;
    this.canvas = el("canvas", { tabIndex: 0, role: "application", ariaLabel: "Fleet map. Arrow keys choose a host.",
      onclick: (event) => this.choose(this.at(event)), onmousemove: (event) => this.hint(this.at(event)),
      onkeydown: (event) => this.key(event) });
    this.found = el("input", { type: "search", id: "find", placeholder: "host12",
      onkeydown: (event) => { if (event.key === "Enter") this.find(event.target.value); } });
    this.details = el("section", { className: "panel", ariaLive: "polite", id: "details" }, el("p", { className: "quiet" }, "Choose a host."));
    view.append(
      el("div", { className: "bar" }, el("label", {}, "Find a host", this.found)),
      el("div", { className: "split" },
        el("div", {}, this.canvas, el("ul", { className: "legend" },
          ...[["used", "used"], ["full", "over 90 %"], ["free", "free"], ["down", "down"], ["off", "disabled"]]
            .map(([name, text]) => el("li", {}, el("i", { className: name }), text)))),
        this.details));
  }

  async refresh() {
    this.hosts = (await api.hosts()).sort(byName);
    this.redraw();
    if (this.chosen) await this.show(this.chosen);
    const up = this.hosts.filter((each) => condition(each) === "up").length;
    const running = this.hosts.reduce((sum, each) => sum + each.running_vms, 0);
    return `${this.hosts.length} hosts, ${up} up and enabled; ${running} instances`;
  }

  redraw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    this.layout(width);
    const scale = devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = this.height * scale;
    this.canvas.style.height = `${this.height}px`;
    const to = this.canvas.getContext("2d");
    to.scale(scale, scale);
    to.textBaseline = "middle";
    const ink = Object.fromEntries(["back", "text", "quiet", "line", "free", "used", "full", "down", "wait", "accent"]
      .map((name) => [name, colour(`--${name}`)]));
    to.fillStyle = ink.back;
    to.fillRect(0, 0, width, this.height);
    for (const title of this.titles) {
      to.fillStyle = ink.quiet;
      to.font = "600 13px system-ui, sans-serif";
      to.fillText(title.text, 0, title.y + TITLE / 2);
    }
    to.font = "12px system-ui, sans-serif";
    for (const place of this.places) this.draw(to, place, ink);
  }

  // Rows of rectangles of one height, whose width is the host's vcpus. The scale is the largest at which all are in view.
  layout(width) {
    const zones = new Map();
    for (const each of this.hosts) {
      if (!zones.has(each.zone)) zones.set(each.zone, []);
      zones.get(each.zone).push(each);
    }
    const names = [...zones.keys()].sort();
    const wanted = Math.max(innerHeight - this.canvas.getBoundingClientRect().top - scrollY - 70, 260);
    for (let size = 64; ; size -= size > 16 ? 4 : 1) {
      this.height = this.lay(names, zones, width, size);
      if (this.height <= wanted || size <= LEAST) return;
    }
  }

  lay(names, zones, width, size) {
    this.places = [];
    this.titles = [];
    const mean = this.hosts.reduce((sum, each) => sum + each.vcpus, 0) / (this.hosts.length || 1) || 1;
    let y = 0;
    for (const name of names) {
      const hosts = zones.get(name);
      this.titles.push({ text: `${name}: ${hosts.length} hosts`, y });
      y += TITLE;
      let x = 0;
      for (const host of hosts) {
        const wide = Math.min(Math.max(LEAST, Math.round(size * 1.5 * host.vcpus / mean)), width);
        if (x + wide > width) { x = 0; y += size + GAP; }
        this.places.push({ host, x, y, wide, high: size });
        x += wide + GAP;
      }
      y += size + GAP + 6;
    }
    return y;
  }

  draw(to, { host, x, y, wide, high }, ink) {
    const { vcpus, memory } = shares(host);
    const state = condition(host);
    const used = Math.min(Math.max(vcpus, memory), 1);
    to.fillStyle = state === "down" ? ink.down : ink.free;
    to.fillRect(x, y, wide, high);
    if (state !== "down") {
      to.fillStyle = used > 0.9 ? ink.full : ink.used;
      to.fillRect(x, y + high * (1 - used), wide, high * used);
    }
    if (state === "disabled") {
      to.setLineDash([4, 3]);
      to.strokeStyle = ink.wait;
      to.lineWidth = 2;
      to.strokeRect(x + 1, y + 1, wide - 2, high - 2);
      to.setLineDash([]);
    }
    const name = nameOf(host);
    if (high >= 16 && to.measureText(name).width < wide - 6) {
      const middle = y + Math.min(high / 2, 10);
      to.fillStyle = ink.back;
      to.globalAlpha = 0.75;
      to.fillRect(x + 2, middle - 8, to.measureText(name).width + 4, 16);
      to.globalAlpha = 1;
      to.fillStyle = ink.text;
      to.fillText(name, x + 4, middle);
    }
    if (host.host === this.chosen) {
      to.strokeStyle = ink.accent;
      to.lineWidth = 3;
      to.strokeRect(x + 1.5, y + 1.5, wide - 3, high - 3);
    }
  }

  at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return this.places.find((each) => x >= each.x && x < each.x + each.wide && y >= each.y && y < each.y + each.high);
  }

  hint(place) {
    if (!place) { this.canvas.title = ""; return; }
    const { vcpus, memory } = shares(place.host);
    const percent = (share) => `${Math.round(100 * share)} %`;
    this.canvas.title = `${nameOf(place.host)} (${condition(place.host)}): vcpus ${percent(vcpus)}, memory ${percent(memory)}, ` +
      `${place.host.running_vms} instances`;
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.inRow(), ArrowUp: -this.inRow() };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const now = this.places.findIndex((each) => each.host.host === this.chosen);
    const next = now < 0 ? 0 : Math.min(Math.max(now + steps[event.key], 0), this.places.length - 1);
    this.choose(this.places[next]);
  }

  inRow() {
    const first = this.places[0];
    return this.places.filter((each) => each.y === first?.y).length || 1;
  }

  find(text) {
    const wanted = text.trim();
    const place = this.places.find((each) => nameOf(each.host) === wanted) ?? this.places.find((each) => nameOf(each.host).includes(wanted));
    if (place) this.choose(place);
    else this.details.replaceChildren(el("p", { className: "bad" }, `No host is named ${wanted}.`));
  }

  choose(place) {
    if (!place) return;
    this.chosen = place.host.host;
    history.replaceState(null, "", `#map/${encodeURIComponent(this.chosen)}`);
    this.redraw();
    this.show(this.chosen).catch((failed) => this.details.replaceChildren(el("p", { className: "bad" }, failed.message)));
  }

  async show(name) {
    const { nodes, instances } = await api.host(name);
    if (name !== this.chosen) return;
    const parts = nodes.map((node) => facts([
      ["node", node.node],
      ["state", el("span", { className: condition(node) === "up" ? "good" : "bad" }, `${node.state}, ${node.status}`)],
      ["zone", node.zone],
      ["vcpus", `${node.vcpus_used} of ${node.vcpus} (× ${node.cpu_allocation_ratio})`],
      ["memory", `${gigabytes(node.memory_mb_used)} of ${gigabytes(node.memory_mb)} (× ${node.ram_allocation_ratio})`],
      ["disk", `${node.local_gb_used} of ${node.local_gb} GB (× ${node.disk_allocation_ratio})`],
      ["driver", node.hypervisor_type ?? ""],
    ]));
    const rows = instances.map((each) => el("tr", {},
      el("td", {}, el("a", { href: `#builds/${encodeURIComponent(each.uuid)}` }, each.name)),
      el("td", {}, each.task_state ?? each.vm_state), el("td", { className: "number" }, `${each.flavor.vcpus}`),
      el("td", { className: "number" }, gigabytes(each.flavor.memory_mb))));
    const head = ["instance", "state", "vcpus", "memory"].map((title) => el("th", { scope: "col" }, title));
    this.details.replaceChildren(el("h2", {}, name), ...parts, el("h3", {}, `${instances.length} instances`),
      el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
  }
}
