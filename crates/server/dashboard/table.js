// Tables whose rows stay the same elements while their numbers change: focus and selection survive a tick.

import { el, set, show, tell } from "./dom.js";

const LOADING = "Loading…";

/**
 * `columns`: `{ head, class, cell(item, place) }`, where `cell` gives a text, or a node that it may have put there before.
 * `keyOf` says which row is whose; those of one key have a row each, in their order. `update(items)` shows them, or that nothing
 * is known yet where they are none; while somebody points at a row, or has the focus in it, rows neither come nor go nor move,
 * unless `isAsked` says that this somebody wants it so.
 */
export function table({ caption, columns, keyOf, empty, isCaptionHidden = false }) {
  // Roles are written down because some browsers take them from what is not laid out as a table.
  const body = el("tbody", { role: "rowgroup" });
  const head = el("tr", { role: "row" }, columns.map(column => el("th", { scope: "col", role: "columnheader", class: column.class }, column.head || el("span", { class: "hidden" }, column.name))));
  const element = el("table", { class: "cards", role: "table" }, el("caption", { class: "hidden" }, caption), el("thead", { role: "rowgroup" }, head), body);
  const none = el("p", { class: "empty" }, LOADING);
  const scroll = el("div", { class: "scroll", hidden: true, role: "region", "aria-label": caption }, element);
  const waits = el("p", { class: "waits", hidden: true }, "Rows wait while you are at them");
  // The heading is there also when there is nothing below it.
  const box = el("div", { class: "table" }, isCaptionHidden ? null : el("h2", { tabindex: "-1" }, caption), scroll, waits, none);
  const rows = new Map();
  /** What is to be shown when nobody is at a row any more. */
  let waiting = null;

  function update(told, isAsked = false) {
    // That there is nobody is said only where it is known.
    tell(none, told ? empty : LOADING);
    const items = told ?? [];
    const keys = distinct(items.map(keyOf));
    const isHeld = !isAsked && body.matches(":hover, :has(:focus-visible)");
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
  // The focus is where it goes to only after this.
  body.addEventListener("focusout", () => setTimeout(goOn));
  // A place to scroll is a place to stop at, and no other is.
  const watch = new ResizeObserver(() => set(scroll, "tabindex", scroll.scrollWidth > scroll.clientWidth ? "0" : null));
  watch.observe(scroll);
  watch.observe(element);
  const tellEmpty = text => {
    empty = text;
    tell(none, text);
  };
  return { box, update, tellEmpty };
}

/** Each with its number among those that are equal: what is kept of two keys may be the same, and neither is shown in the other's row. */
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
  if (typeof content === "string") tell(place, content);
  else if (place.firstChild !== content) show(place, content);
}

/** A cell that is made once for a row and kept. */
export const once = make => (item, place) => (place.firstChild ? undefined : make(item));
