// What happens, as it happens: events of instances, volumes and hosts, the newest first.

import * as api from "./api.js";
import { el, moment, table } from "./dom.js";

const MOST = 200;
const KINDS = ["instance", "volume", "host"];
const COLUMNS = ["when", "what", "name", "event", "result", "host"].map((title) => ({ title }));

export function open(view) {
  return new Events(view);
}

class Events {
  lives = true;

  constructor(view) {
    this.known = new Set();
    this.rows = [];
    this.list = el("section", { className: "panel", id: "events" });
    view.append(this.list);
    this.follow();
    this.draw("waiting for the first event");
  }

  follow() {
    this.source = new EventSource(new URL("../fleet/v1/events", document.baseURI));
    for (const kind of KINDS) this.source.addEventListener(kind, (message) => this.add(kind, JSON.parse(message.data)));
    this.source.onopen = () => this.draw("live");
    this.source.onerror = () => this.draw("cut off; trying again");
  }

  // A browser gives a stream up if the answer is a refusal.
  async refresh() {
    if (this.source.readyState === EventSource.CLOSED) {
      await api.session();
      this.follow();
    }
    return this.said;
  }

  close() {
    this.source.close();
  }

  add(kind, event) {
    const key = `${kind} ${event.id}`;
    if (event.id !== undefined && this.known.has(key)) return;
    this.known.add(key);
    this.rows.unshift(row(kind, event));
    for (const old of this.rows.splice(MOST)) this.known.delete(old.dataset.key);
    this.rows[0].dataset.key = key;
    this.draw("live");
  }

  draw(said) {
    this.said = said;
    document.getElementById("status").textContent = said;
    this.list.replaceChildren(el("h2", {}, "Events"), this.rows.length ? table(COLUMNS, this.rows)
      : el("p", { className: "quiet" }, "Nothing has happened since this view was opened."));
  }
}

function row(kind, event) {
  const good = kind === "host" ? event.state === "up" && event.status === "enabled" : event.result === "success" || event.result === "begun";
  const name = kind === "instance" ? el("a", { href: `#builds/${encodeURIComponent(event.uuid)}` }, event.name) : event.name ?? event.host;
  const what = kind === "host" ? "state" : event.event;
  const result = kind === "host" ? `${event.state}, ${event.status}` : event.result;
  const cells = [moment(event.created_at ?? new Date().toISOString()), kind, name, what,
    el("span", { className: good ? "good" : "bad", title: event.message ?? "" }, result), event.host ?? ""];
  return el("tr", {}, cells.map((each) => el("td", {}, each)));
}
