// What instances have had over the last hours, beside what the hosts of today may give away.

import * as api from "./api.js";
import { colour, el, moment } from "./dom.js";

const HEIGHT = 170;
const EDGE = { left: 64, right: 12, top: 14, bottom: 24 };
const HOURS = { 1: "1 hour", 6: "6 hours", 24: "a day", 168: "a week", 744: "a month" };
const CHARTS = [
  { name: "vcpus", title: "Virtual CPUs", show: (value) => `${Math.round(value)}` },
  { name: "memory_mb", title: "Memory", show: (value) => `${Math.round(value / 1024)} GB` },
  { name: "disk_gb", title: "Disk", show: (value) => `${Math.round(value)} GB` },
  { name: "instances", title: "Instances", show: (value) => `${Math.round(value)}` },
];

export function open(view) {
  return new Use(view);
}

class Use {
  lives = false;

  constructor(view) {
    this.hours = el("select", { id: "hours", onchange: () => this.refresh() },
      Object.entries(HOURS).map(([hours, name]) => el("option", { value: hours, selected: hours === "24" }, name)));
    this.charts = CHARTS.map((chart) => new Chart(chart));
    const again = el("button", { type: "button", onclick: () => this.refresh() }, "Look again");
    view.append(el("div", { className: "bar" }, el("label", {}, "The last", this.hours), again),
      ...this.charts.map((each) => each.panel));
  }

  async refresh() {
    const found = await api.use(this.hours.value);
    for (const chart of this.charts) chart.draw(found);
    return `${found.instances.at(-1)} instances now`;
  }

  redraw() {
    for (const chart of this.charts) chart.draw();
  }
}

class Chart {
  constructor(chart) {
    this.chart = chart;
    this.canvas = el("canvas", { role: "img", onmousemove: (event) => this.hint(event) });
    this.said = el("p", { className: "quiet" });
    this.panel = el("section", { className: "panel chart", id: `use-${chart.name}` }, el("h2", {}, chart.title), this.canvas, this.said);
  }

  draw(found = this.found) {
    const width = this.canvas.clientWidth;
    if (!found || !width) return;
    this.found = found;
    const { name, show } = this.chart;
    const values = found[name];
    const limit = found.limits[name];
    const now = values.at(-1);
    const part = limit ? `, ${Math.round(100 * now / limit)} % of ${show(limit)}` : "";
    this.said.textContent = `Now ${show(now)}${part}; least ${show(Math.min(...values))}, most ${show(Math.max(...values))}`;
    this.canvas.ariaLabel = `${this.chart.title} of instances over time. ${this.said.textContent}`;
    this.scale(width, Math.max(1, limit ?? 0, ...values) * 1.05);
    this.axes(found, limit);
    this.line(values);
  }

  scale(width, most) {
    const scale = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * scale, height: HEIGHT * scale });
    this.canvas.style.height = `${HEIGHT}px`;
    this.to = this.canvas.getContext("2d");
    this.to.scale(scale, scale);
    const last = this.found.times.length - 1;
    this.x = (place) => EDGE.left + (width - EDGE.left - EDGE.right) * place / last;
    this.y = (value) => HEIGHT - EDGE.bottom - (HEIGHT - EDGE.top - EDGE.bottom) * value / most;
    this.most = most;
  }

  axes(found, limit) {
    const { to, x, y } = this;
    const last = found.times.length - 1;
    to.font = "12px system-ui, sans-serif";
    to.fillStyle = colour("--quiet");
    to.strokeStyle = colour("--line");
    for (const part of [0, 0.5, 1]) {
      this.rule(y(this.most * part / 1.05));
      to.fillText(this.chart.show(this.most * part / 1.05), 4, y(this.most * part / 1.05) + 4);
      const text = moment(found.times[Math.round(last * part)]);
      to.textAlign = ["left", "center", "right"][2 * part];
      to.fillText(text, x(last * part), HEIGHT - 6);
      to.textAlign = "left";
    }
    if (!limit) return;
    to.strokeStyle = colour("--full");
    to.setLineDash([6, 4]);
    this.rule(y(limit));
    to.setLineDash([]);
  }

  rule(y) {
    this.to.beginPath();
    this.to.moveTo(this.x(0), y);
    this.to.lineTo(this.x(this.found.times.length - 1), y);
    this.to.stroke();
  }

  line(values) {
    const { to, x, y } = this;
    const path = new Path2D();
    values.forEach((value, place) => {
      if (place) path.lineTo(x(place), y(values[place - 1]));
      path[place ? "lineTo" : "moveTo"](x(place), y(value));
    });
    to.strokeStyle = colour("--used");
    to.lineWidth = 2;
    to.stroke(path);
    path.lineTo(x(values.length - 1), y(0));
    path.lineTo(x(0), y(0));
    to.globalAlpha = 0.25;
    to.fillStyle = colour("--used");
    to.fill(path);
    to.globalAlpha = 1;
    to.lineWidth = 1;
  }

  hint(event) {
    if (!this.found) return;
    const { left, width } = this.canvas.getBoundingClientRect();
    const last = this.found.times.length - 1;
    const place = Math.round(last * (event.clientX - left - EDGE.left) / (width - EDGE.left - EDGE.right));
    const value = this.found[this.chart.name][Math.min(last, Math.max(0, place))];
    this.canvas.title = `${moment(this.found.times[Math.min(last, Math.max(0, place))])}: ${this.chart.show(value)}`;
  }
}
