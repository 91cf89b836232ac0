// The views, and which of them this user may see. A view is loaded when it is first opened.

import { el } from "../base/dom.js";
import { to } from "../base/route.js";
import { isAdministrator, may, mine } from "../base/session.js";

const events = () => may("operator/list_events");
export const VIEWS = {
  overview: { title: "Overview", load: () => import("../overview/overview.js"), may: () => true },
  map: { title: "Map", load: () => import("../map/map.js"), may: isAdministrator },
  instances: { title: "Instances", load: () => import("../instances/instances.js"), may: () => may("operator/search_instances") },
  hosts: { title: "Hosts", load: () => import("../hosts/hosts.js"), may: isAdministrator },
  volumes: { title: "Volumes", load: () => import("../volumes/volumes.js"), may: () => may("operator/search_volumes") },
  events: { title: "Events", load: () => import("../overview/events.js"), may: events },
  boot: { title: "Boot", load: () => import("../instances/boot.js"), may: () => may("compute_task/create"), gap: true },
  room: { title: "Room", load: () => import("../planning/room.js"), may: isAdministrator },
  upkeep: { title: "Upkeep", load: () => import("../upkeep/upkeep.js"), may: isAdministrator },
  use: { title: "Use", load: () => import("../planning/use.js"), may: isAdministrator },
};

const nav = document.getElementById("nav");
const who = document.getElementById("who");

export const known = (name) => (Object.hasOwn(VIEWS, name) && VIEWS[name].may() ? name : "overview");

export function draw() {
  const links = Object.entries(VIEWS).filter(([, view]) => view.may()).map(([name, { title, gap }]) =>
    [gap ? el("span", { className: "gap" }) : null, el("a", { href: to(name) }, title)]);
  nav.replaceChildren(...links.flat().filter(Boolean));
  const { user_id: user, project_id: project, roles } = mine();
  who.textContent = isAdministrator() ? "" : `${user} of project ${project} (${roles.join(", ")})`;
}

export function clear() {
  nav.replaceChildren();
  who.textContent = "";
}

export function mark(name) {
  for (const link of nav.querySelectorAll("a")) {
    if (link.hash !== `#${name}`) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    }
  }
}
