// Tables whose rows stay the same elements while their numbers change: focus and selection survive a tick.

import { el, set, show, tell } from "./dom.js";

/**
 * `columns`: `{ head, class, cell(item, place) }`, where `cell` gives a text, or a node that it may have put there before.
 * `keyOf` says which row is whose. `update(items)` shows them.
 */
export function table({ caption, columns, keyOf, empty, isCaptionHidden = false }) {
  const body = el("tbody");
  const head = el("tr", {}, columns.map(column => el("th", { scope: "col", class: column.class }, column.head || el("span", { class: "hidden" }, column.name))));
  const element = el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, head), body);
  const none = el("p", { class: "empty" }, empty);
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, element);
  // The heading is there also when there is nothing below it.
  const box = el("div", { class: "table" }, isCaptionHidden ? null : el("h2", {}, caption), scroll, none);
  const rows = new Map();

  function update(items) {
    const keys = new Set(items.map(keyOf));
    for (const [key, row] of rows) {
      if (!keys.has(key)) {
        row.remove();
        rows.delete(key);
      }
    }
    // Rows do not move away below a pointer or from the focus.
    const isHeld = body.matches(":hover") || body.contains(document.activeElement);
    items.forEach((item, index) => {
      const key = keyOf(item);
      let row = rows.get(key);
      if (!row) {
        row = el("tr", {}, columns.map((column, at) => (at === 0 ? el("th", { scope: "row", class: column.class }) : el("td", { class: column.class, "data-head": column.head || null }))));
        rows.set(key, row);
        body.append(row);
      }
      if (!isHeld && body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
      columns.forEach((column, at) => fill(row.children[at], column.cell(item, row.children[at])));
    });
    set(scroll, "hidden", items.length === 0);
    set(none, "hidden", items.length > 0);
  }
  return { box, update, element, tellEmpty: text => tell(none, text) };
}

function fill(place, content) {
  if (content === undefined) return;
  if (typeof content === "string") tell(place, content);
  else if (place.firstChild !== content) show(place, content);
}

/** A cell that is made once for a row and kept. */
export const once = make => (item, place) => (place.firstChild ? undefined : make(item));
