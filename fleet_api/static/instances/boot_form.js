// The fields of a new instance, as a request of the contract.

import { ask } from "../base/api.js";
import { el } from "../base/dom.js";
import { memory, plural } from "../base/figures.js";
import { to } from "../base/route.js";
import { isAdministrator, may, mine } from "../base/session.js";

export class Form {
  constructor(onChange) {
    this.flavors = [];
    this.fields = {
      name: el("input", { id: "name", required: true, maxLength: 255, placeholder: "web" }),
      flavor: el("select", { id: "flavor", required: true }),
      image: el("select", { id: "image" }),
      count: el("input", { id: "count", type: "number", min: 1, max: 1000, value: 1 }),
      zone: el("input", { id: "zone", placeholder: "any" }),
      group: el("select", { id: "group" }),
      key: el("select", { id: "key" }),
      network: el("select", { id: "network" }),
      project: el("input", { id: "project", value: mine().project_id ?? "" }),
      hints: el("textarea", { id: "hints", placeholder: "different_host=…", rows: 2 }),
    };
    const { fields } = this;
    this.none = el("p", {});
    this.place = el("div", { oninput: onChange, onchange: onChange }, this.none, el("div", { className: "fields" },
      el("label", {}, "Name", fields.name), el("label", {}, "Instances", fields.count), el("label", { className: "whole" }, "Flavor", fields.flavor),
      el("label", {}, "Image", fields.image), el("label", {}, "Availability zone", fields.zone),
      may("operator/list_groups") ? el("label", {}, "Server group", fields.group) : null,
      may("operator/list_key_pairs") ? el("label", {}, "Key pair", fields.key) : null,
      may("operator/list_networks") ? el("label", {}, "Network", fields.network) : null,
      isAdministrator() ? el("label", {}, "Project", fields.project) : null,
      el("label", { className: "whole" }, "Hints, NAME=VALUE, one a line", fields.hints)));
  }

  async load() {
    const list = (name) => (may(`operator/${name}`) ? ask(`operator/${name}`).catch(() => []) : []);
    const [flavors, images, groups, keys, networks] = await Promise.all([ask("operator/list_flavors"),
      ...["list_images", "list_groups", "list_key_pairs", "list_networks"].map(list)]);
    this.flavors = flavors;
    this.images = images;
    offer(this.fields.flavor, flavors.map((each) => [each.name, `${each.name}: ${each.vcpus} vcpus, ${memory(each.memory_mb)}, ${each.root_gb} GB`]));
    offer(this.fields.image, [["", "none"], ...images.map((each) => [each.uuid, each.name])]);
    offer(this.fields.group, [["", "none"], ...groups.map((each) => [each.uuid, `${each.name} (${each.policy})`])]);
    offer(this.fields.key, [["", "none"], ...keys.map((each) => [each.name, each.name])]);
    // A guest is reached by its address: where there are networks, the default one is proposed.
    offer(this.fields.network, networks.length ? [["auto", "the default one"], ["none", "none"], ...networks.map((each) => [each.uuid, `${each.name} (${each.subnet})`])]
      : [["none", "none"]]);
    this.none.replaceChildren(...(flavors.length ? [] : [el("strong", {}, "There is no flavor yet. "),
      isAdministrator() ? el("span", {}, "Create one: ", el("code", {}, "fleet flavor create small --vcpus 1 --memory-mb 2048 --root-gb 10"))
        : "An administrator creates one."]));
    return plural(flavors.length, "flavor");
  }

  flavor() {
    return this.flavors.find((each) => each.name === this.fields.flavor.value);
  }

  project() {
    return isAdministrator() ? this.fields.project.value.trim() : "";
  }

  // As compute_task/create takes it. Throws what is wrong in words.
  request() {
    const { name, flavor, count, image, zone, group, key, network } = Object.fromEntries(Object.entries(this.fields).map(([of, field]) => [of, field.value.trim()]));
    if (!name) throw new Error("Name: give it one");
    if (!flavor) throw new Error("Flavor: choose one");
    const wanted = { name, flavor, count: Number(count) };
    if (!Number.isInteger(wanted.count) || wanted.count < 1 || wanted.count > 1000) throw new Error("Instances: a whole number from 1 to 1000");
    const chosen = this.images.find((each) => each.uuid === image);
    if (chosen) wanted.image = imageOf(chosen);
    if (zone) wanted.availability_zone = zone;
    if (group) wanted.group = group;
    if (key) wanted.key_name = key;
    if (network && network !== "none") wanted.networks = network === "auto" ? network : [{ network, address: null }];
    return { ...wanted, scheduler_hints: hintsOf(this.fields.hints.value) };
  }
}

const imageOf = ({ uuid, name, min_ram, min_disk, size, properties }) => ({ id: uuid, name, min_ram, min_disk, size: size ?? 0, properties: properties ?? {} });

function hintsOf(text) {
  const hints = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const place = line.indexOf("=");
    if (place < 1) throw new Error(`Hints: '${line}' is not NAME=VALUE`);
    hints[line.slice(0, place)] = line.slice(place + 1);
  }
  return hints;
}

function offer(select, choices) {
  const before = select.value;
  select.replaceChildren(...choices.map(([value, text]) => el("option", { value }, text)));
  if (choices.some(([value]) => value === before)) select.value = before;
}
