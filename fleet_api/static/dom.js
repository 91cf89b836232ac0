// Makes elements. Text goes in as text nodes only, so a name with a script in it stays text.

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list" && name !== "form") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

export function table(columns, rows) {
  const head = columns.map((each) => el("th", { scope: "col", className: each.number ? "number" : "" }, each.title));
  return el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
}

export function cells(columns, record) {
  return columns.map((each) => el("td", { className: each.number ? "number" : "" }, each.show(record)));
}

export function facts(pairs) {
  return el("dl", {}, pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function gigabytes(mb) {
  return `${(mb / 1024).toFixed(mb < 10240 ? 1 : 0)} GB`;
}

// An ISO time in UTC as the reader's local time.
export function moment(text) {
  if (!text) return "";
  const at = new Date(/Z|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`);
  return at.toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
}
