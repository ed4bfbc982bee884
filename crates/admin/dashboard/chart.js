// Time series charts: SVG in the available pixels, so that text is not distorted.

import { el, set, show, svg, setText } from "./dom.js";
import { clock } from "./format.js";

const MARGIN = { top: 12, right: 12, bottom: 24, left: 54 };

/**
 * A chart of `series`: `{ name, kind, of }`, where `kind` is a class and `of` reads a point. Stacked ones are areas.
 * `ofAxis` formats axis labels if `format` is too long for them. `draw(points, from, to)` redraws the chart.
 */
export function chart({ title, series, format, ofAxis = format, isStacked = false, height = 190, columns }) {
  const drawing = svg("svg", { role: "img", "aria-label": `${title}: nothing yet`, class: "chart", height });
  const tip = el("p", { class: "tip", hidden: true });
  const legend = el("ul", { class: "legend", "aria-hidden": "true" }, series.map(one => el("li", { class: one.kind }, one.name)));
  const rows = el("tbody");
  const heads = [columns ?? "Time", ...series.map(one => one.name)].map((name, at) => el("th", { scope: "col", class: at > 0 ? "number" : null }, name));
  const table = el("table", {}, el("caption", { class: "hidden" }, title), el("thead", {}, el("tr", {}, heads)), rows);
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, as a table` }, table);
  const details = el("details", { class: "as-table" }, el("summary", {}, "As a table"), scroll);
  const figure = el("figure", { class: "panel" }, el("figcaption", {}, el("h2", {}, title), legend), el("div", { class: "plot" }, drawing, tip), details);
  const state = { points: [], from: 0, to: 1, top: 1, drawing, tip, series, format, ofAxis, isStacked, height, title, rows, details, scroll, pointedAt: null };
  drawing.addEventListener("pointermove", event => {
    state.pointedAt = event.clientX;
    point(state);
  });
  drawing.addEventListener("pointerleave", () => {
    state.pointedAt = null;
    point(state);
  });
  details.addEventListener("toggle", () => tabulate(state));
  new ResizeObserver(() => draw(state)).observe(drawing);
  return {
    figure,
    draw(points, from, to) {
      Object.assign(state, { points, from, to: Math.max(to, from + 1) });
      draw(state);
      tabulate(state);
    },
  };
}

/** Upper end of the axis: a round number with a round half, not much above the maximum. */
export function roundAbove(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map(step => step * size).find(step => step >= value * 1.02) ?? 10 * size;
}

function heights(state, point) {
  const own = state.series.map(one => one.of(point));
  if (!state.isStacked) return own.map(value => [0, value]);
  let sum = 0;
  return own.map(value => [sum, (sum += value ?? 0)]);
}

function draw(state) {
  const { drawing, points, height } = state;
  const width = drawing.clientWidth || drawing.parentElement?.clientWidth || 0;
  if (width === 0) return;
  set(drawing, "viewBox", `0 0 ${width} ${height}`);
  const shown = points.filter(point => point.t >= state.from && point.t <= state.to);
  state.top = roundAbove(shown.reduce((most, point) => Math.max(most, ...heights(state, point).map(([, top]) => top ?? 0)), 0));
  const scale = scaleOf(state, width);
  const layers = state.series.map((one, index) => layer(state, shown, scale, one, index));
  show(drawing, grid(state, scale, width), state.isStacked ? layers.reverse() : layers, svg("line", { class: "cross", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" }));
  const last = shown.filter(point => !point.isGap).at(-1);
  const now = last ? state.series.map(one => `${one.name} ${state.format(one.of(last))}`).join(", ") : "nothing yet";
  set(drawing, "aria-label", `${state.title}. Last: ${now}.`);
  // The cursor line was removed with the old drawing.
  if (state.pointedAt !== null) point(state);
}

function scaleOf(state, width) {
  const inner = width - MARGIN.left - MARGIN.right;
  const tall = state.height - MARGIN.top - MARGIN.bottom;
  return {
    x: t => MARGIN.left + (inner * (t - state.from)) / (state.to - state.from),
    y: value => MARGIN.top + tall * (1 - value / state.top),
    back: x => state.from + ((x - MARGIN.left) / inner) * (state.to - state.from),
  };
}

function grid(state, scale, width) {
  const lines = [0, 0.5, 1].map(part => {
    const y = scale.y(part * state.top);
    return [svg("line", { class: part === 0 ? "axis" : "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }), svg("text", { class: "tick", x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, state.ofAxis(part * state.top))];
  });
  const momentsOf = steps => Array.from({ length: steps + 1 }, (_, index) => state.from + ((state.to - state.from) * index) / steps);
  // As many labels as fit; times of another day include the date.
  const room = width - MARGIN.left - MARGIN.right;
  const steps = [4, 2].find(number => momentsOf(number).reduce((sum, moment) => sum + 7 * clock(moment).length + 12, 0) < room) ?? 1;
  const times = momentsOf(steps).map((moment, index) => svg("text", { class: "tick", x: scale.x(moment), y: state.height - 6, "text-anchor": index === 0 ? "start" : index === steps ? "end" : "middle" }, clock(moment)));
  return [lines, times].flat(3);
}

/** One series: a line, with an area below it if stacked, interrupted at gaps. */
function layer(state, points, scale, one, index) {
  const runs = [[]];
  for (const point of points) {
    const [low, high] = point.isGap ? [] : heights(state, point)[index];
    if (typeof high === "number") runs.at(-1).push([scale.x(point.t), scale.y(high), scale.y(low)]);
    else if (runs.at(-1).length > 0) runs.push([]);
  }
  const at = ([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`;
  const line = runs.filter(run => run.length > 0).map(run => `M${run.map(at).join("L")}`).join("");
  const area = runs.filter(run => run.length > 1).map(run => `M${run.map(at).join("L")}L${run.toReversed().map(([x, , low]) => at([x, low])).join("L")}Z`).join("");
  return svg("g", { class: one.kind }, state.isStacked && svg("path", { class: "area", d: area }), svg("path", { class: "line", d: line }));
}

/** Shows the values at the pointer. */
function point(state) {
  const box = state.drawing.getBoundingClientRect();
  const scale = scaleOf(state, box.width);
  const moment = state.pointedAt === null ? null : scale.back(state.pointedAt - box.left);
  const known = moment === null ? [] : state.points.filter(one => !one.isGap);
  const near = known.reduce((best, one) => (!best || Math.abs(one.t - moment) < Math.abs(best.t - moment) ? one : best), null);
  const cross = state.drawing.querySelector(".cross");
  if (!near || !cross) {
    set(state.tip, "hidden", true);
    if (cross) set(cross, "visibility", "hidden");
    return;
  }
  const x = scale.x(near.t);
  for (const [name, value] of [["x1", x], ["x2", x], ["visibility", "visible"]]) set(cross, name, value);
  set(state.tip, "hidden", false);
  setText(state.tip, [clock(near.t), ...state.series.map(one => `${one.name} ${state.format(one.of(near))}`)].join(" · "));
}

/** Twenty of the points as a table, for screen readers. It is not updated while it has focus or a selection. */
function tabulate({ details, scroll, points, rows, series, format }) {
  const marked = document.getSelection();
  const isRead = scroll.contains(document.activeElement) || (!marked.isCollapsed && scroll.contains(marked.anchorNode));
  if (!details.open || (isRead && rows.firstChild)) return;
  const known = points.filter(one => !one.isGap);
  const step = Math.max(1, Math.ceil(known.length / 20));
  const listed = known.filter((_, index) => (known.length - 1 - index) % step === 0);
  while (rows.childElementCount > listed.length) rows.lastChild.remove();
  while (rows.childElementCount < listed.length) rows.append(el("tr", {}, el("th", { scope: "row" }), series.map(() => el("td", { class: "number" }))));
  listed.forEach((one, index) => [clock(one.t), ...series.map(each => format(each.of(one)))].forEach((text, at) => setText(rows.children[index].children[at], text)));
}

/** A sparkline: one series without axes, next to its numbers. */
export function spark(points, from, to) {
  const [width, height] = [96, 22];
  const top = points.reduce((most, one) => Math.max(most, one.refused), 0);
  const drawing = svg("svg", { class: "spark refused", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  if (top > 0) {
    const at = one => `${((width * (one.t - from)) / (to - from)).toFixed(1)},${(height - 2 - ((height - 4) * one.refused) / top).toFixed(1)}`;
    const shown = points.filter(one => one.t >= from);
    const step = (one, index) => (one.isGap ? "" : (index === 0 || shown[index - 1].isGap ? "M" : "L") + at(one));
    drawing.append(svg("path", { class: "line", d: shown.map(step).join("") }));
  }
  return drawing;
}
