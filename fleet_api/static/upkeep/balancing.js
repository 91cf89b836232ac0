// Aggregates that are balanced: which hosts are hot, the newest round of each with its moves, and why hosts are left hot.

import { ask } from "../base/api.js";
import { question } from "../base/dialog.js";
import { el, empty, link, note, put } from "../base/dom.js";
import { memory, plural } from "../base/figures.js";
import { ago } from "../base/moments.js";
import { to } from "../base/route.js";
import { table } from "../base/table.js";

const MOVES = [
  { title: "instance", show: (each) => link(to("instances", [each.instance_uuid]), each.name) },
  { title: "from", show: (each) => link(to("hosts", [each.source]), each.source) },
  { title: "to", show: (each) => link(to("hosts", [each.destination]), each.destination) },
  { title: "memory", number: true, wide: true, show: (each) => memory(each.memory_mb) },
  { title: "gain", number: true, show: (each) => points(each.gain) },
  { title: "status", show: (each) => (each.why ? `${each.status}: ${each.why}` : each.status) },
];

export class Balancing {
  constructor(after) {
    this.after = after;
    // By aggregate, what was asked for.
    this.computed = new Map();
    this.place = el("div", { id: "balancing" });
  }

  async refresh() {
    const found = (await ask("operator/list_balances")).filter((each) => each.mode !== "off" || each.last);
    put(this.place, found.length ? found.map((each) => this.shown(each)) : empty("No aggregate is balanced.",
      el("code", {}, "fleet aggregate set NAME --property balance=suggest")));
    return found.filter((each) => each.mode !== "off" && !each.paused).length;
  }

  shown(each) {
    const hot = Object.entries(each.hot_since).sort();
    return el("section", {}, el("h3", {}, each.aggregate, " ", el("span", { className: "quiet" }, each.paused ? `${each.mode}, paused` : each.mode)),
      each.paused ? el("p", {}, "Paused: hosts are not looked at.") : el("p", {}, hot.length ? ["Hot: ", hot.map(([host, since], place) => [place ? ", " : "", link(to("hosts", [host]), host), " since ", ago(since)])]
        : "No host is hot", each.looked_at ? [". Looked at ", ago(each.looked_at), "."] : ". Not looked at yet."),
      each.last ? this.round(each.last, `Round ${each.last.status}`) : null,
      this.computed.has(each.aggregate) ? this.round(this.computed.get(each.aggregate), "Computed") : null, el("div", { className: "verbs" }, this.verbs(each)));
  }

  round(round, title) {
    const { before, expected, mean, measured, hosts } = round.seen;
    const left = Object.entries(round.not_done).sort();
    const loads = hosts ? `the most loaded of ${plural(hosts, "host")} (${measured} measured) is ${points(before)} above the mean of ${points(mean)}`
      : "no host of the aggregate may take guests";
    return [el("p", {}, el("strong", {}, title), " ", ago(round.seen_at), `: ${loads}`,
      round.moves.length ? `; ${points(expected)} are expected after its moves` : "", round.after === null ? "." : `, ${points(round.after)} were measured.`),
    round.moves.length ? table(MOVES, round.moves) : el("p", { className: "quiet" }, "No move."),
    left.length ? el("ul", { className: "findings" }, left.map(([host, why]) => el("li", {}, `${host}: ${why}`))) : null];
  }

  verbs(each) {
    const last = each.last;
    const begins = each.mode === "confirm" && last?.status === "suggested" && !each.paused;
    const button = (key, text, act) => el("button", { type: "button", data: { key: `${key} ${each.aggregate}` }, onclick: act }, text);
    return [begins ? button("begin", "Begin these moves", () => this.begin(last)) : null,
      button("suggest", "What would be done now", () => this.suggest(each.aggregate)),
      each.mode === "off" ? null : button("pause", each.paused ? "Resume" : "Pause", () => this.pause(each))];
  }

  begin(round) {
    question({
      title: `Begin ${plural(round.moves.length, "move")}`,
      text: "The guests move while they run. Filters and claims judge each of them once more.",
      verb: "Begin",
      act: async () => {
        await ask("operator/run_balance", { aggregate: round.aggregate, uuid: round.uuid });
        this.after().catch(() => {});
        return `${plural(round.moves.length, "move")} of ${round.aggregate} begun`;
      },
    });
  }

  // What is hot now counts as if it had been so for long. Nothing is written.
  async suggest(aggregate) {
    try {
      this.computed.set(aggregate, await ask("operator/suggest_balance", { aggregate }));
    } catch (failed) {
      note(failed.message);
    }
    this.after().catch(() => {});
  }

  pause({ aggregate, paused }) {
    question({
      title: `${paused ? "Resume" : "Pause"} balancing of ${aggregate}`,
      verb: paused ? "Resume" : "Pause",
      act: async () => {
        await ask("operator/pause_balance", { aggregate, paused: !paused });
        this.after().catch(() => {});
        return paused ? `${aggregate} is balanced again` : `Balancing of ${aggregate} is paused; moves under way end`;
      },
    });
  }
}

const points = (value) => `${value.toFixed(1)} points`;
