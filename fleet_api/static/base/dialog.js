// A question before an act. What the call refuses is said in the dialog, in the call's own words.

import { el, note, refocusing } from "./dom.js";

// act() returns what is noted afterwards; the dialog stays open if it throws. A list that is drawn anew behind the dialog
// has another button in the place of the one that opened it.
export function question({ title, text, fields = [], verb, danger, act }) {
  const refused = el("p", { className: "bad", role: "alert" });
  const doing = el("button", { className: danger ? "danger" : "main", type: "submit" }, verb);
  const form = el("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); submit(); } }, el("h2", {}, title),
    text ? el("p", {}, text) : null, fields.length ? el("div", { className: "fields" }, fields) : null, refused,
    el("div", { className: "verbs" }, el("button", { type: "button", onclick: () => shown.close() }, "Cancel"), doing));
  const refocus = refocusing(document);
  const shown = el("dialog", { onclose: () => { shown.remove(); refocus(); } }, form);
  async function submit() {
    doing.disabled = true;
    refused.textContent = "";
    try {
      const said = await act();
      shown.close();
      if (said) note(said);
    } catch (failed) {
      refused.textContent = failed.message;
    }
    doing.disabled = false;
  }
  document.body.append(shown);
  shown.showModal();
  return shown;
}
