// Tables that update in place, so that focus and selection survive updates.

import { el, set, show, setText } from "./dom.js";

const LOADING = "Loading…";

/**
  * `columns`: `{ head, class, cell(item, place) }`, where `cell` returns a text or a node, which may be the existing one.
  * `keyOf` identifies rows; items with the same key have separate rows, in order. `update(items)` shows the items, or
  * "Loading" without a list. While a row is hovered or has the focus, rows are not added, removed or moved, unless
  * `isRequested` says that the user requested the update.
 */
export function table({ caption, columns, keyOf, empty, isCaptionHidden = false }) {
  // Explicit roles, because some browsers drop them from tables with another layout.
  const body = el("tbody", { role: "rowgroup" });
  const head = el("tr", { role: "row" }, columns.map(column => el("th", { scope: "col", role: "columnheader", class: column.class }, column.head || el("span", { class: "hidden" }, column.name))));
  const element = el("table", { class: "cards", role: "table" }, el("caption", { class: "hidden" }, caption), el("thead", { role: "rowgroup" }, head), body);
  const none = el("p", { class: "empty" }, LOADING);
  const scroll = el("div", { class: "scroll", hidden: true, role: "region", "aria-label": caption }, element);
  const waits = el("p", { class: "waits", hidden: true }, "Updates paused while this table has focus");
  // The heading is displayed even for an empty table.
  const box = el("div", { class: "table" }, isCaptionHidden ? null : el("h2", { tabindex: "-1" }, caption), scroll, waits, none);
  const rows = new Map();
  /** Items to show when the table loses hover and focus. */
  let waiting = null;

  function update(list, isRequested = false) {
    // The text for an empty list is shown only after it was loaded.
    setText(none, list ? empty : LOADING);
    const items = list ?? [];
    const keys = distinct(items.map(keyOf));
    const isHeld = !isRequested && body.matches(":hover, :has(:focus-visible)");
    const isSame = keys.length === rows.size && keys.every((key, index) => body.children[index] === rows.get(key));
    waiting = isHeld && !isSame ? items : null;
    set(waits, "hidden", waiting === null);
    if (!isSame && !isHeld) place(items, keys);
    items.forEach((item, index) => {
      const row = rows.get(keys[index]);
      if (row) columns.forEach((column, at) => fill(row.children[at], column.cell(item, row.children[at])));
    });
    set(scroll, "hidden", rows.size === 0);
    set(none, "hidden", rows.size > 0);
  }

  function place(items, keys) {
    const shown = new Set(keys);
    for (const [key, row] of rows) {
      if (!shown.has(key)) {
        row.remove();
        rows.delete(key);
      }
    }
    keys.forEach((key, index) => {
      let row = rows.get(key);
      if (!row) rows.set(key, (row = emptyRow(columns)));
      if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
    });
  }

  const goOn = () => waiting && update(waiting);
  body.addEventListener("pointerleave", goOn);
  // The focus moves only after this event.
  body.addEventListener("focusout", () => setTimeout(goOn));
  // Only scrollable areas are focusable.
  const watch = new ResizeObserver(() => set(scroll, "tabindex", scroll.scrollWidth > scroll.clientWidth ? "0" : null));
  watch.observe(scroll);
  watch.observe(element);
  const setEmptyText = text => {
    empty = text;
    setText(none, text);
  };
  return { box, update, setEmptyText };
}

/** Keys with their ordinal among equal ones: two truncated keys may be equal and need separate rows. */
function distinct(keys) {
  const seen = new Map();
  return keys.map(key => {
    const before = seen.get(key) ?? 0;
    seen.set(key, before + 1);
    return JSON.stringify([key, before]);
  });
}

function emptyRow(columns) {
  return el("tr", { role: "row" }, columns.map((column, at) => (at === 0
    ? el("th", { scope: "row", role: "rowheader", class: column.class })
    : el("td", { role: "cell", class: column.class, "data-head": column.head || null }))));
}

function fill(place, content) {
  if (content === undefined) return;
  if (typeof content === "string") setText(place, content);
  else if (place.firstChild !== content) show(place, content);
}

/** A cell that is created once per row. */
export const once = make => (item, place) => (place.firstChild ? undefined : make(item));
