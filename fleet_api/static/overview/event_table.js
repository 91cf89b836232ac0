// Events of instances, volumes and hosts as a table.

import { el, link } from "../base/dom.js";
import { ago } from "../base/moments.js";
import { to } from "../base/route.js";
import { isAdministrator } from "../base/session.js";
import { badge } from "../base/states.js";
import { table } from "../base/table.js";

const COLUMNS = [
  { title: "when", show: (each) => ago(each.created_at) },
  { title: "what", wide: true, show: (each) => each.kind },
  { title: "name", show: named },
  { title: "event", show: (each) => each.event },
  { title: "result", show: result },
];
const HOST = { title: "host", wide: true, show: (each) => (each.host ? (isHost(each) ? link(to("hosts", [each.host]), each.host) : each.host) : "") };

export const eventTable = (events) => table(isAdministrator() ? [...COLUMNS, HOST] : COLUMNS, events);

// A storage backend is machine@backend.
const isHost = (each) => !each.host.includes("@");

function named(each) {
  if (each.kind === "host") return link(to("hosts", [each.host]), each.host);
  return link(to(each.kind === "volume" ? "volumes" : "instances", [each.uuid]), each.name);
}

function result(each) {
  if (each.kind === "host") return badge(each.state === "up" ? (each.status === "enabled" ? "up" : "wait") : "down", `${each.state}, ${each.status}`);
  const shown = badge(each.result === "success" || each.result === "begun" ? "success" : "error", each.result);
  return each.message ? el("span", { title: each.message }, shown) : shown;
}
