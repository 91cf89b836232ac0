// Light or dark, as the system has it until somebody chooses.

const button = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

export function start(redraw) {
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = name === "dark" ? "Light" : "Dark";
    redraw();
  };
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    set(next);
  });
  dark.addEventListener("change", () => { if (!localStorage.getItem("theme")) set(dark.matches ? "dark" : "light"); });
  set(localStorage.getItem("theme") ?? (dark.matches ? "dark" : "light"));
}
