// What may be done with volumes. Each is a call of the contract; the server decides, and its refusal is shown.

import { ask } from "../base/api.js";
import { el } from "../base/dom.js";
import { question } from "../base/dialog.js";
import { disk } from "../base/figures.js";
import { go } from "../base/route.js";
import { may } from "../base/session.js";

const VERBS = [
  { call: "attach_volume", text: "Attach", when: (each) => each.status === "available", open: attach },
  { call: "detach_volume", text: "Detach", when: (each) => each.attachments?.some((one) => one.status === "attached"), open: detach },
  { call: "extend_volume", text: "Extend", when: (each) => each.status === "available", open: extend },
  { call: "delete_volume", text: "Delete", danger: true, when: (each) => ["available"].includes(each.status) || each.status.startsWith("error"), open: remove },
];

// current() returns the volume as it was read last.
export function verbs(current, after) {
  return VERBS.filter((each) => may(`operator/${each.call}`) && each.when(current())).map((each) =>
    el("button", { type: "button", className: each.danger ? "danger" : "", data: { key: each.call }, onclick: () => each.open(current(), after) }, each.text));
}

const named = (volume) => volume.name || volume.uuid;

export function create() {
  const name = el("input", { id: "volume-name", placeholder: "data" });
  const size = el("input", { id: "volume-size", type: "number", min: 1, value: 10, required: true });
  question({ title: "New volume", fields: [el("label", {}, "Name", name), el("label", {}, "Size in GB", size)], verb: "Create",
    act: async () => {
      const { volumes } = await ask("operator/create_volumes", { request: { name: name.value.trim(), size: Number(size.value) } });
      go("volumes", [volumes[0].uuid]);
      return `${name.value.trim() || "The volume"} is being created`;
    } });
}

function attach(volume, after) {
  const server = el("input", { id: "server", required: true, placeholder: "name or uuid" });
  question({ title: `Attach ${named(volume)}`, fields: [el("label", { className: "whole" }, "To the instance", server)], verb: "Attach", act: async () => {
    await ask("operator/attach_volume", { name: server.value.trim(), volume: volume.uuid });
    await after();
    return `${named(volume)}: attachment asked for`;
  } });
}

function detach(volume, after) {
  const [held] = volume.attachments;
  question({ title: `Detach ${named(volume)}?`, text: `${held.instance_name} loses its disk ${held.device}. Unmount it in the guest first.`, verb: "Detach", act: async () => {
    await ask("operator/detach_volume", { name: held.instance, volume: volume.uuid });
    await after();
    return `${named(volume)}: detachment asked for`;
  } });
}

function extend(volume, after) {
  const size = el("input", { id: "volume-size", type: "number", min: volume.size_gb + 1, value: volume.size_gb + 10, required: true });
  question({ title: `Extend ${named(volume)}`, text: `It has ${disk(volume.size_gb)}. It cannot be made smaller again.`, fields: [el("label", {}, "New size in GB", size)], verb: "Extend",
    act: async () => {
      await ask("operator/extend_volume", { name: volume.uuid, size: Number(size.value) });
      await after();
      return `${named(volume)}: extension asked for`;
    } });
}

function remove(volume) {
  question({ title: `Delete ${named(volume)}?`, text: "Its data are lost. This cannot be undone.", verb: "Delete", danger: true, act: async () => {
    await ask("operator/delete_volume", { name: volume.uuid });
    go("volumes");
    return `${named(volume)} is being deleted`;
  } });
}
