// Where each host of the map is: tiles of one size in rows, grouped by zone, as large as the window allows.

const TITLE = 22;
const BETWEEN_ZONES = 8;
const WIDEST = 480;
const TALLEST = 112;
const SHAPE = 0.4;
const LEAST = 6;

// zones: [[name, hosts], …]. Returns places, titles, the height of all, and the size of a tile.
export function layout(zones, width, height) {
  const most = Math.max(1, ...zones.map(([, hosts]) => hosts.length));
  let found = null;
  for (let columns = 1; columns <= Math.max(most, 1); columns += 1) {
    const tile = tileOf(columns, width);
    if (tile.wide < LEAST) break;
    // A handful of hosts fills the width; more columns than hosts would leave a part of it empty.
    if (tile.wide > WIDEST && columns < most) continue;
    found = tile;
    if (heightOf(zones, tile) <= height) break;
  }
  return lay(zones, found ?? tileOf(Math.max(1, Math.floor(width / LEAST)), width));
}

function tileOf(columns, width) {
  const gap = width / columns > 40 ? 6 : width / columns > 14 ? 2 : 1;
  const wide = (width - (columns - 1) * gap) / columns;
  return { columns, gap, wide, high: Math.max(LEAST, Math.min(TALLEST, wide * SHAPE)) };
}

function heightOf(zones, { columns, gap, high }) {
  return zones.reduce((sum, [, hosts]) => sum + TITLE + BETWEEN_ZONES + Math.ceil(hosts.length / columns) * (high + gap), 0);
}

function lay(zones, tile) {
  const { columns, gap, wide, high } = tile;
  const places = [];
  const titles = [];
  let y = 0;
  for (const [name, hosts] of zones) {
    titles.push({ text: name, hosts, y: y + TITLE / 2 });
    y += TITLE;
    hosts.forEach((host, number) => places.push({ host, x: (number % columns) * (wide + gap), y: y + Math.floor(number / columns) * (high + gap) }));
    y += Math.ceil(hosts.length / columns) * (high + gap) + BETWEEN_ZONES;
  }
  return { places, titles, height: y, tile };
}
