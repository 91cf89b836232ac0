// Drawings, in the colours of the theme and at the resolution of the screen.

import { el } from "./dom.js";

const NAMES = ["back", "panel", "raised", "text", "quiet", "line", "free", "used", "much", "full", "down", "wait", "good", "bad", "accent"];

export function inks() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries([...NAMES, "kind-none", ...[...Array(8).keys()].map((each) => `kind-${each}`)]
    .map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// The context of a canvas of this size in pixels of the page, empty.
export function drawing(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const to = canvas.getContext("2d");
  to.scale(scale, scale);
  to.font = "12px system-ui, sans-serif";
  to.textBaseline = "middle";
  return to;
}

// A word beside the pointer, over a canvas.
export function hover(canvas) {
  const word = el("div", { className: "hover", hidden: true });
  const place = el("div", { className: "over" }, canvas, word);
  return { place, show(text, event) {
    word.hidden = !text;
    if (!text) return;
    word.textContent = text;
    const { left, top, width } = canvas.getBoundingClientRect();
    const x = event.clientX - left;
    word.style.left = x > width / 2 ? "" : `${x + 12}px`;
    word.style.right = x > width / 2 ? `${width - x + 12}px` : "";
    word.style.top = `${event.clientY - top + 12}px`;
  } };
}

// The end of an axis from zero whose middle is a round number too: 2, 4, 6, 8, 10, 20 … of a unit.
export function evenUp(value, unit = 1) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value / unit, 1)));
  return unit * power * [2, 4, 6, 8, 10, 20].find((each) => each * power * unit >= value - 1e-9);
}

// The next higher of 1, 2, 5, 10, 20, 50 …: the end of an axis.
export function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= value - 1e-9);
}
