// The mesh drawn: this node in the middle, its peers around it. The table below it says the same in words.

import { el, show, svg } from "./dom.js";
import { count, millis, visible } from "./format.js";

/** More than these are points without names. */
const MOST_NAMED = 24;
const [WIDTH, HEIGHT] = [900, 440];

export function map() {
  const drawing = svg("svg", { class: "map", role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}` });
  return {
    box: el("div", { class: "map-box" }, drawing),
    draw(own, peers) {
      const alive = peers.filter(peer => peer.state === "alive").length;
      drawing.setAttribute("aria-label", `${visible(own, 40)} and its ${peers.length} peers, of which ${alive} are alive. The table below has each of them.`);
      const placed = peers.map((peer, index) => ({ peer, ...position(index, peers.length) }));
      show(drawing, placed.map(edge), placed.map(one => node(one, peers.length)), centre(own));
    },
  };
}

/** On an ellipse, beginning at the left, so that names have room. */
function position(index, number) {
  const angle = Math.PI + (2 * Math.PI * index) / Math.max(number, 1) + (number === 2 ? 0 : Math.PI / Math.max(number, 1));
  return { x: WIDTH / 2 + 330 * Math.cos(angle), y: HEIGHT / 2 - 8 + 150 * Math.sin(angle) };
}

/** Whose silence is long is drawn with a broken line. */
function edge({ peer, x, y }) {
  const [cx, cy] = [WIDTH / 2, HEIGHT / 2 - 8];
  const isStale = peer.state !== "alive" || peer.staleness_ms > 1_000;
  const label = peer.state === "alive" ? millis(peer.rtt_ms) : peer.staleness_ms === null ? "" : `silent ${millis(peer.staleness_ms)}`;
  const [lx, ly] = [cx + 0.56 * (x - cx), cy + 0.56 * (y - cy)];
  return svg("g", { class: `edge ${peer.state}` },
    svg("line", { x1: cx, y1: cy, x2: x, y2: y, class: isStale ? "stale" : null }),
    svg("text", { x: lx, y: ly - 4, "text-anchor": "middle", class: "halo" }, label));
}

function hexagon(x, y, radius) {
  return Array.from({ length: 6 }, (_, index) => {
    const angle = (Math.PI / 3) * index + Math.PI / 6;
    return `${(x + radius * Math.cos(angle)).toFixed(1)},${(y + radius * Math.sin(angle)).toFixed(1)}`;
  }).join(" ");
}

function node({ peer, x, y }, number) {
  const radius = number > MOST_NAMED ? 10 : 24;
  const sign = { alive: "✓", suspect: "?", dead: "✕", quarantined: "!" }[peer.state] ?? "?";
  const isNamed = number <= MOST_NAMED;
  // Away from the middle, where no line is in the way.
  const [nameY, moreY] = y < HEIGHT / 2 - 8 ? [y - radius - 24, y - radius - 8] : [y + radius + 18, y + radius + 34];
  return svg("g", { class: `peer ${peer.state}` },
    svg("polygon", { points: hexagon(x, y, radius) }),
    isNamed && svg("text", { x, y: y + 7, "text-anchor": "middle", class: "sign" }, sign),
    isNamed && svg("text", { x, y: nameY, "text-anchor": "middle", class: "name" }, visible(peer.name, 22)),
    isNamed && svg("text", { x, y: moreY, "text-anchor": "middle", class: "more" }, peer.state === "alive" ? `${count(peer.rights_held)} rights` : peer.state));
}

function centre(own) {
  const [x, y] = [WIDTH / 2, HEIGHT / 2 - 8];
  return svg("g", { class: "own" },
    svg("polygon", { points: hexagon(x, y, 34) }),
    svg("text", { x, y: y + 5, "text-anchor": "middle", class: "sign" }, "this"),
    svg("text", { x, y: y + 52, "text-anchor": "middle", class: "name halo" }, visible(own, 28)));
}
