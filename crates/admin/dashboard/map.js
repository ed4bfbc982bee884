// Mesh map: this node in the center, its peers around it. The table below contains the same data.

import { el, set, show, svg } from "./dom.js";
import { count, millis, visible } from "./format.js";

/** Above this number, peers are drawn without names. */
const MOST_NAMED = 24;
/** On narrow screens the map is in portrait format, so that text keeps its size. */
const SHAPES = { wide: { width: 900, height: 440, rx: 330, ry: 150 }, narrow: { width: 400, height: 520, rx: 138, ry: 190 } };

export function map() {
  const drawing = svg("svg", { class: "map", role: "img" });
  const box = el("div", {}, drawing);
  return {
    box,
    draw(own, peers) {
      const shape = box.clientWidth < 560 ? SHAPES.narrow : SHAPES.wide;
      set(drawing, "viewBox", `0 0 ${shape.width} ${shape.height}`);
      const alive = peers.filter(peer => peer.state === "alive").length;
      set(drawing, "aria-label", `${visible(own, 40)} and its ${peers.length} peers, of which ${alive} are alive. The table below has each of them.`);
      const [cx, cy] = [shape.width / 2, shape.height / 2 - 4];
      const placed = peers.map((peer, index) => ({ peer, cx, cy, ...position(shape, cx, cy, index, peers.length) }));
      show(drawing, placed.map(edge), placed.map(one => node(one, peers.length)), centre(own, cx, cy));
    },
  };
}

/** Positions on an ellipse, starting at the left, so that names fit. */
function position({ rx, ry }, cx, cy, index, number) {
  const angle = Math.PI + (2 * Math.PI * index) / Math.max(number, 1) + (number === 2 ? 0 : Math.PI / Math.max(number, 1));
  return { x: cx + rx * Math.cos(angle), y: cy + ry * Math.sin(angle) };
}

/** Silent peers have a dashed line. */
function edge({ peer, x, y, cx, cy }) {
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

function node({ peer, x, y, cy }, number) {
  const radius = number > MOST_NAMED ? 10 : 24;
  const sign = { alive: "✓", suspect: "?", dead: "✕", quarantined: "!" }[peer.state] ?? "?";
  const isNamed = number <= MOST_NAMED;
  // On the outer side, away from the lines.
  const [nameY, moreY] = y < cy ? [y - radius - 24, y - radius - 8] : [y + radius + 18, y + radius + 34];
  return svg("g", { class: `peer ${peer.state}` },
    svg("polygon", { points: hexagon(x, y, radius) }),
    isNamed && svg("text", { x, y: y + 7, "text-anchor": "middle", class: "sign" }, sign),
    isNamed && svg("text", { x, y: nameY, "text-anchor": "middle", class: "name" }, visible(peer.name, 22)),
    isNamed && svg("text", { x, y: moreY, "text-anchor": "middle", class: "more" }, peer.state === "alive" ? `${count(peer.rights_held)} rights` : peer.state));
}

function centre(own, x, y) {
  return svg("g", { class: "own" },
    svg("polygon", { points: hexagon(x, y, 34) }),
    svg("text", { x, y: y + 5, "text-anchor": "middle", class: "sign" }, "this"),
    svg("text", { x, y: y + 52, "text-anchor": "middle", class: "name halo" }, visible(own, 28)));
}
