// The fleet map: a tile for each host, as wide as its limit, with its instances as blocks; grouped by zone or by a label of hosts.

import * as api from "../base/api.js";
import { drawing, hover, inks } from "../base/canvas.js";
import { el, empty, panel, put } from "../base/dom.js";
import { disk, memory, number, percent, plural } from "../base/figures.js";
import { byName, condition, nameOf, RESOURCE_NAMES, RESOURCES, room, rooms } from "../base/hosts.js";
import { keep } from "../base/route.js";
import { may } from "../base/session.js";
import { chips } from "../base/table.js";
import { tellSimulated } from "../frame/status.js";
import { Blocks } from "./blocks.js";
import { COLOURS, colouring, legend } from "./colours.js";
import { show } from "./details.js";
import { layout } from "./layout.js";
import { BLOCKS_FROM, paint } from "./paint.js";

const BELOW = 110;
const NARROW = 500;

export const open = (view, [chosen], query) => new FleetMap(view, chosen, query);

class FleetMap {
  lives = true;

  constructor(view, chosen, { by, colour, label, rows }) {
    this.by = RESOURCES.includes(by) ? by : "memory_mb";
    this.colour = COLOURS.some(([name]) => name === colour) ? colour : "use";
    this.blocks = new Blocks(label ?? "");
    // The label of hosts whose values group the tiles; empty: the zone.
    this.rows = rows ?? "";
    this.hosts = [];
    this.chosen = chosen ?? null;
    this.canvas = el("canvas", { tabIndex: 0, role: "application", ariaLabel: "Fleet map. Arrow keys choose a host.",
      onclick: (event) => this.choose(this.at(event)), onmousemove: (event) => this.hint(event), onmouseleave: () => this.word.show(""),
      onkeydown: (event) => this.key(event) });
    this.word = hover(this.canvas);
    this.find = el("input", { type: "search", id: "find", placeholder: "host, zone, instance, project", oninput: () => this.redraw(),
      onkeydown: (event) => { if (event.key === "Enter") this.chooseFound(); } });
    this.label = el("input", { id: "label", placeholder: "a key of the metadata", value: this.blocks.label,
      onchange: () => { this.blocks.label = this.label.value.trim(); this.switched(); } });
    this.switches = el("div", { className: "bar" });
    this.rowsBy = el("select", { id: "rows", onchange: () => { this.rows = this.rowsBy.value; this.keep(); this.redraw(); } });
    this.rowed = el("label", { hidden: true }, "Rows", this.rowsBy);
    this.labelled = el("label", {}, "Label", this.label);
    this.said = el("div", {});
    this.details = el("div", { ariaLive: "polite", id: "details" });
    this.split = el("div", {}, el("div", {}, this.word.place, this.said), this.details);
    view.append(el("div", { className: "head" }, el("h1", {}, "Map")), el("div", { className: "bar" }, this.switches, this.labelled,
      this.rowed, el("label", {}, "Find", this.find)), this.split);
    this.drawSwitches();
  }

  drawSwitches() {
    const of = (title, ...more) => el("fieldset", {}, el("legend", {}, title), chips(...more, "switch"));
    put(this.switches, of("Limits of", "Limits", RESOURCES.map((each) => [each, RESOURCE_NAMES[each]]), this.by, (value) => { this.by = value; this.switched(); }),
      of("Colour by", "Colours", COLOURS.filter(([name]) => name !== "survival" || may("scheduler/describe_filters")), this.colour, (value) => { this.colour = value; this.switched(); }));
    this.labelled.hidden = this.colour !== "label";
  }

  switched() {
    this.keep();
    this.drawSwitches();
    this.redraw();
    this.blocks.forget();
    this.read().catch(() => {});
  }

  keep() {
    keep("map", this.chosen ? [this.chosen] : [], { by: this.by === "memory_mb" ? "" : this.by, colour: this.colour === "use" ? "" : this.colour,
      label: this.colour === "label" ? this.blocks.label : "", rows: this.rows });
  }

  async refresh() {
    const hosts = await api.hosts();
    tellSimulated(hosts);
    this.hosts = hosts.sort(byName);
    this.offerRows();
    this.redraw();
    await this.read();
    if (this.chosen) await show(this.details, this.chosen, this.isStill(this.chosen));
    const up = hosts.filter((each) => condition(each) === "up").length;
    return `${plural(hosts.length, "host")}, ${number(up)} up and enabled; ${plural(hosts.reduce((sum, each) => sum + each.running_vms, 0), "instance")}`;
  }

  // The labels that hosts have, and the one that the address names.
  offerRows() {
    const labels = [...new Set([...this.hosts.flatMap((each) => Object.keys(each.labels ?? {})), this.rows])].filter(Boolean).sort();
    this.rowed.hidden = !labels.length;
    put(this.rowsBy, ["", ...labels].map((each) => el("option", { value: each, selected: each === this.rows }, each || "zone")));
  }

  groupOf(host) {
    return this.rows ? `${this.rows} ${host.labels?.[this.rows] ?? "none"}` : host.zone;
  }

  // Instances are asked for only if they can be seen, or give the colour.
  async read() {
    if (this.colour === "use" && !(this.laid?.tile.wide >= BLOCKS_FROM)) return;
    if (await this.blocks.read(this.colour)) this.redraw();
  }

  isStill(name) {
    return () => name === this.chosen;
  }

  redraw() {
    this.split.className = this.chosen ? "split" : "";
    const width = this.canvas.clientWidth;
    if (!width) return;
    const zones = new Map();
    for (const each of this.hosts) zones.set(this.groupOf(each), [...(zones.get(this.groupOf(each)) ?? []), each]);
    // Where the window is narrow the map is scrolled rather than made tiny.
    const room_ = Math.max(innerHeight - this.canvas.getBoundingClientRect().top - scrollY - BELOW, width < NARROW ? innerHeight : 240);
    this.laid = layout([...zones].sort(([one], [other]) => (one < other ? -1 : 1)), width, room_);
    const to = drawing(this.canvas, width, this.laid.height);
    const ink = inks();
    const coloured = colouring(this.colour, this.blocks.all, this.blocks.groups, this.blocks.promises);
    const wanted = this.find.value.trim().toLowerCase();
    for (const { text, hosts, y } of this.laid.titles) this.title(to, text, hosts, y, ink, width);
    for (const place of this.laid.places) {
      const blocks = this.blocks.of(place.host.host, this.by, coloured);
      paint(to, place, this.laid.tile, { by: this.by, blocks, coloured, ink, chosen: place.host.host === this.chosen,
        dim: wanted && !matches(place.host, blocks, wanted) });
    }
    put(this.said, this.hosts.length ? [legend(coloured, ink), this.blocks.note] : panel(null, empty("No host has reported yet.",
      el("span", {}, "Start ", el("code", {}, "fleet-compute"), " on a machine."))));
  }

  title(to, text, hosts, y, ink, width) {
    const { share } = rooms(hosts, this.by);
    const words = `${text}: ${plural(hosts.length, "host")}, ${percent(share)} of the ${RESOURCE_NAMES[this.by] === "CPU" ? "CPU" : RESOURCE_NAMES[this.by].toLowerCase()} limit used`;
    to.font = "600 13px system-ui, sans-serif";
    to.fillStyle = ink.quiet;
    to.fillText(words, 0, y, width);
    to.font = "12px system-ui, sans-serif";
  }

  at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const { wide, high } = this.laid.tile;
    const place = this.laid.places.find((each) => x >= each.x && x < each.x + wide && y >= each.y && y < each.y + high);
    return place && { place, block: place.blocks.find((each) => x >= each.x && x < each.x + each.wide)?.block };
  }

  hint(event) {
    const found = this.laid && this.at(event);
    if (!found) return this.word.show("");
    const { host } = found.place;
    const [cpu, mb, gb] = RESOURCES.map((each) => room(host, each));
    const lines = [`${nameOf(host)} (${condition(host)})`, `CPU ${percent(cpu.share)}: ${number(cpu.used)} of ${number(cpu.limit)}`,
      `Memory ${percent(mb.share)}: ${memory(mb.used)} of ${memory(mb.limit)}`, `Disk ${percent(gb.share)}: ${disk(gb.used)} of ${disk(gb.limit)}`,
      plural(host.running_vms, "instance")];
    if (found.block) lines.unshift(this.blocks.told(found.block));
    this.word.show(lines.join("\n"), event);
  }

  key(event) {
    const row = this.laid?.tile.columns ?? 1;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row };
    if (!(event.key in steps) || !this.laid?.places.length) return;
    event.preventDefault();
    const now = this.laid.places.findIndex((each) => each.host.host === this.chosen);
    const next = now < 0 ? 0 : Math.min(Math.max(now + steps[event.key], 0), this.laid.places.length - 1);
    this.choose({ place: this.laid.places[next] });
  }

  chooseFound() {
    const wanted = this.find.value.trim().toLowerCase();
    const places = this.laid?.places ?? [];
    const place = places.find((each) => nameOf(each.host).toLowerCase() === wanted)
      ?? places.find((each) => matches(each.host, this.blocks.of(each.host.host, this.by, null), wanted));
    if (place) this.choose({ place });
    else put(this.details, panel(null, el("p", { className: "bad" }, `No host or instance is named ${this.find.value.trim()}.`)));
  }

  choose(found) {
    if (!found) return;
    this.chosen = found.place.host.host;
    this.keep();
    this.redraw();
    show(this.details, this.chosen, this.isStill(this.chosen));
  }
}

function matches(host, blocks, wanted) {
  if ([nameOf(host), host.zone, ...Object.values(host.labels ?? {})].some((each) => each.toLowerCase().includes(wanted))) return true;
  return (blocks ?? []).some((each) => [each.name, each.project_id, each.label].some((one) => one?.toLowerCase().includes(wanted)));
}
