// One figure over time, beside its limit. What was before the fleet began is left empty: it is no zero.

import { drawing, evenUp, hover, inks } from "../base/canvas.js";
import { el } from "../base/dom.js";
import { percent } from "../base/figures.js";
import { at, moment } from "../base/moments.js";

const EDGE = { left: 62, right: 10, top: 10, bottom: 22 };
const HOUR_MS = 3600000;

export class LineChart {
  // chart: name of the figure, title, show(value) → text, and the units of the axis, the largest first; axis(value) → text there
  constructor(chart, height) {
    this.chart = chart;
    this.height = height;
    this.canvas = el("canvas", { role: "img", onmousemove: (event) => this.point(event), onmouseleave: () => this.leave() });
    this.said = el("p", { className: "quiet" });
    this.word = hover(this.canvas);
    this.place = el("div", { id: `use-${chart.name}` }, el("h3", {}, chart.title), this.word.place, this.said);
  }

  draw(found = this.found) {
    const width = this.canvas.clientWidth;
    if (!found || !width) return;
    this.found = found;
    this.times = found.times.map((each) => at(each).getTime());
    const began = found.began ? at(found.began).getTime() : this.times[0];
    this.first = Math.max(0, this.times.findIndex((each) => each >= began));
    const values = found[this.chart.name].slice(this.first);
    const limit = found.limits[this.chart.name];
    this.tell(values, limit);
    const most = Math.max(1, limit ?? 0, ...values);
    this.most = evenUp(most, this.chart.units?.find((each) => each <= most));
    this.to = drawing(this.canvas, width, this.height);
    this.ink = inks();
    this.x = (place) => EDGE.left + (width - EDGE.left - EDGE.right) * place / (this.times.length - 1);
    this.y = (value) => this.height - EDGE.bottom - (this.height - EDGE.top - EDGE.bottom) * value / this.most;
    this.axes(limit);
    this.line(values);
    this.mark(this.marked ?? this.times.length - 1, this.marked !== undefined);
  }

  tell(values, limit) {
    const { show, title } = this.chart;
    const now = values.at(-1);
    const part = limit ? `, ${percent(now / limit)} of ${show(limit)}` : "";
    this.said.textContent = `Now ${show(now)}${part}; least ${show(Math.min(...values))}, most ${show(Math.max(...values))}`;
    this.canvas.ariaLabel = `${title} of instances over time. ${this.said.textContent}`;
  }

  axes(limit) {
    const { to, ink, x, y } = this;
    const last = this.times.length - 1;
    to.fillStyle = ink.quiet;
    to.strokeStyle = ink.line;
    for (const part of [0, 0.5, 1]) {
      this.rule(y(this.most * part));
      to.textAlign = "right";
      to.fillText((this.chart.axis ?? this.chart.show)(this.most * part), EDGE.left - 8, y(this.most * part));
      to.textAlign = ["left", "center", "right"][2 * part];
      to.fillText(this.when(this.times[Math.round(last * part)]), x(last * part), this.height - 8);
    }
    if (this.first > 0) this.before();
    if (!limit) return;
    to.strokeStyle = ink.full;
    to.setLineDash([6, 4]);
    this.rule(y(limit));
    to.setLineDash([]);
  }

  // Hours within two days, days beyond.
  when(time) {
    const length = this.times.at(-1) - this.times[0];
    const options = length <= 48 * HOUR_MS ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" };
    return new Date(time).toLocaleString(undefined, options);
  }

  before() {
    const { to, ink, x, y } = this;
    to.fillStyle = ink.free;
    to.globalAlpha = 0.6;
    to.fillRect(x(0), y(this.most), x(this.first) - x(0), y(0) - y(this.most));
    to.globalAlpha = 1;
    const text = "before the fleet began";
    if (to.measureText(text).width + 12 > x(this.first) - x(0)) return;
    to.fillStyle = ink.quiet;
    to.textAlign = "center";
    to.fillText(text, (x(0) + x(this.first)) / 2, y(this.most / 2));
  }

  rule(y) {
    this.to.beginPath();
    this.to.moveTo(EDGE.left, y);
    this.to.lineTo(this.x(this.times.length - 1), y);
    this.to.stroke();
  }

  line(values) {
    const { to, ink, x, y, first } = this;
    const path = new Path2D();
    values.forEach((value, place) => {
      if (place) path.lineTo(x(first + place), y(values[place - 1]));
      path[place ? "lineTo" : "moveTo"](x(first + place), y(value));
    });
    to.strokeStyle = ink.used;
    to.lineWidth = 2;
    to.stroke(path);
    path.lineTo(x(first + values.length - 1), y(0));
    path.lineTo(x(first), y(0));
    to.globalAlpha = 0.22;
    to.fillStyle = ink.used;
    to.fill(path);
    to.globalAlpha = 1;
    to.lineWidth = 1;
  }

  point(event) {
    if (!this.found) return;
    const { left, width } = this.canvas.getBoundingClientRect();
    const last = this.times.length - 1;
    const place = Math.round(last * (event.clientX - left - EDGE.left) / (width - EDGE.left - EDGE.right));
    this.marked = Math.min(last, Math.max(this.first, place));
    this.draw();
    this.word.show(`${moment(this.found.times[this.marked])}\n${this.chart.show(this.found[this.chart.name][this.marked])}`, event);
  }

  leave() {
    this.marked = undefined;
    this.word.show("");
    this.draw();
  }

  // Where the pointer is, or else what is now.
  mark(place, withRule) {
    const { to, ink, x, y } = this;
    to.strokeStyle = ink.quiet;
    if (withRule) {
      to.beginPath();
      to.moveTo(x(place), y(0));
      to.lineTo(x(place), y(this.most));
      to.stroke();
    }
    to.fillStyle = ink.accent;
    to.beginPath();
    to.arc(x(place), y(this.found[this.chart.name][place]), withRule ? 4 : 3, 0, 2 * Math.PI);
    to.fill();
  }
}
