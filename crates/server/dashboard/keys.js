// Keys: who is refused most, who spends most, who is blocked; and one of them looked at closely.

import { why } from "./api.js";
import { descriptorFields } from "./descriptor.js";
import { button, el, notify, show } from "./dom.js";
import { entries, exact, line, relative, time, value } from "./format.js";
import { blocks, showKey } from "./key.js";
import { live, on } from "./live.js";
import { once, table } from "./table.js";

export const title = "Keys";

/** What is to be shown when the view is next opened; it is never part of an address. */
let subject = null;

export function inspect(key) {
  subject = { domain: key.domain, entries: key.entries };
}

export function mount(place) {
  const fields = descriptorFields();
  const detail = el("section", { class: "panel key", hidden: true, "aria-label": "The key" });
  const blocked = blocksTable(key => look(key, true));
  const readBlocks = async () => {
    try {
      blocked.update((await blocks()).items);
    } catch (error) {
      blocked.tellEmpty(why(error));
    }
  };
  const look = async (key, isMoved) => {
    inspect(key);
    fields.write(key.domain, key.entries);
    await showKey(detail, subject, readBlocks);
    if (isMoved) detail.querySelector("h2")?.focus();
  };
  const form = el("form", { class: "panel", "aria-label": "Look a key up", on: { submit: event => {
    event.preventDefault();
    subject = fields.read();
    showKey(detail, subject, readBlocks).then(() => detail.querySelector("h2")?.focus());
  } } }, el("h2", {}, "Look a key up"), fields.box, el("div", { class: "actions" }, el("button", { type: "submit", class: "main" }, "Look up")));
  const denied = rankTable("Refused most", "Refused", "Nobody was refused in the last minutes.", key => look(key, true));
  const spent = rankTable("Spends most", "Spent", "Nothing was spent in the last minutes.", key => look(key, true));
  show(place, el("h1", { tabindex: "-1" }, title),
    el("div", { class: "columns" }, form, el("section", { class: "panel" }, blocked.box)),
    detail,
    el("div", { class: "columns" }, el("section", { class: "panel" }, denied.box), el("section", { class: "panel" }, spent.box)));

  const ranks = () => {
    denied.update(live.top?.denied?.keys ?? []);
    spent.update(live.top?.spent?.keys ?? []);
  };
  ranks();
  blocked.update([]);
  readBlocks();
  if (subject) look(subject, false).catch(error => notify(why(error), "bad"));
  const timer = setInterval(() => document.hidden || live.link !== "live" || readBlocks(), 5_000);
  const end = on("top", ranks);
  return () => {
    end();
    clearInterval(timer);
  };
}

const keyOf = key => JSON.stringify([key.domain, key.entries]);

const keyCell = look => once(key => button(entries(key.entries, 48), () => look(key), { class: "as-link", "aria-label": `Inspect ${line(key.entries)}` }));

function rankTable(caption, head, empty, look) {
  return table({ caption, empty, keyOf, columns: [
    { head: "Key", cell: keyCell(look) },
    { head: "Domain", cell: once(key => value(key.domain, 40)) },
    // A sketch counts: in a flood, a number is the most that it can be.
    { head, class: "number", cell: key => (key.error > 0 ? `≤${exact(key.count)}` : exact(key.count)) },
  ] });
}

function blocksTable(look) {
  return table({ caption: "Blocks in force", empty: "Nobody is blocked.", keyOf, columns: [
    { head: "Key", cell: keyCell(look) },
    { head: "Domain", cell: once(block => value(block.domain, 40)) },
    { head: "Until", cell: block => el("span", {}, time(block.until_ms), ` (${relative(block.until_ms)})`) },
    { head: "By", cell: once(block => (block.by ? value(block.by, 40) : el("span", {}, "this node"))) },
  ] });
}
