// Keys view: most refused, highest spending and blocked keys, and details of one key.

import { get, why } from "./api.js";
import { descriptorFields } from "./descriptor.js";
import { button, el, hide, notify, show, setText } from "./dom.js";
import { entries, exact, relative, time, value } from "./format.js";
import { keyPanel } from "./key.js";
import { live, on } from "./live.js";
import { once, table } from "./table.js";

export const title = "Keys";

const PAGE = 200;
const MOST_BLOCKS = 1_000;
const AGAIN_MS = 5_000;

/** The key to show when the view opens; it is never part of a URL. */
let subject = null;

export function inspect(key) {
  subject = { domain: key.domain, entries: key.entries };
}

export function mount(place) {
  const fields = descriptorFields();
  const detail = el("section", { class: "panel key", hidden: true, "aria-label": "The key" });
  const blocked = blocksTable(key => look(key, true));
  const blocksState = el("p", { class: "bad", role: "status" });
  const more = button("More", () => readBlocks(true), { hidden: true });
  let most = PAGE;
  let asked = 0;
  const readBlocks = async (isMore = false) => {
    if (isMore) most = Math.min(most + PAGE, MOST_BLOCKS);
    const own = (asked += 1);
    try {
      const { items, next } = await get(`/blocks?limit=${most}`);
      // A late response to an earlier request is ignored.
      if (own !== asked) return;
      blocked.setEmptyText("No blocked keys.");
      blocked.update(items, isMore);
      hide(more, next === null || most === MOST_BLOCKS, blocked.box.querySelector("h2"));
      setText(blocksState, next !== null && most === MOST_BLOCKS ? "There are more; hivemind ctl blocks lists all of them." : "");
    } catch (error) {
      if (own !== asked) return;
      blocked.setEmptyText("Not loaded.");
      setText(blocksState, why(error));
    }
  };
  const panel = keyPanel(detail, () => readBlocks());
  const look = async (key, isMoved) => {
    inspect(key);
    fields.write(key.domain, key.entries);
    await panel.show(subject);
    if (isMoved) detail.querySelector("h2")?.focus();
  };
  const form = el("form", { class: "panel", "aria-label": "Look up a key", on: { submit: event => {
    event.preventDefault();
    subject = fields.read();
    panel.show(subject).then(() => detail.querySelector("h2")?.focus());
  } } }, el("h2", {}, "Look up a key"), fields.box, el("div", { class: "actions" }, fields.submit("Look up")));
  const denied = rankTable("Refused most", "Refused", "No requests were refused in the last minutes.", key => look(key, true));
  const spent = rankTable("Spends most", "Spent", "No requests were admitted in the last minutes.", key => look(key, true));
  show(place, el("h1", { tabindex: "-1" }, title),
    el("div", { class: "columns" }, form, el("section", { class: "panel" }, blocked.box, blocksState, el("div", { class: "actions" }, more))),
    detail,
    el("div", { class: "columns" }, el("section", { class: "panel" }, denied.box), el("section", { class: "panel" }, spent.box)));

  const ranks = () => {
    denied.update(live.top?.denied?.keys);
    spent.update(live.top?.spent?.keys);
  };
  ranks();
  readBlocks();
  if (subject) look(subject, false).catch(error => notify(why(error), "bad"));
  const timer = setInterval(() => {
    if (document.hidden || live.link !== "live") return;
    readBlocks();
    panel.refresh();
  }, AGAIN_MS);
  const end = on("top", ranks);
  return () => {
    end();
    clearInterval(timer);
  };
}

const keyOf = key => JSON.stringify([key.domain, key.entries, key.is_cut ?? false]);

/** A truncated key cannot be looked up or blocked: the result would be for another key. */
const NOT_WHOLE = "truncated or hashed: look it up by hand";

/** A button for a key, whose name is the visible text, for voice control; plain text if the key is truncated. */
export function keyLink(key, look, most = 48) {
  if (key.is_cut) return el("span", {}, entries(key.entries, most), " ", el("small", {}, `(${NOT_WHOLE})`));
  return button(entries(key.entries, most), () => look(key), { class: "as-link", title: "Inspect" });
}

const keyCell = look => once(key => keyLink(key, look));

function rankTable(caption, head, empty, look) {
  return table({ caption, empty, keyOf, columns: [
    { head: "Key", cell: keyCell(look) },
    { head: "Domain", cell: once(key => value(key.domain, 40)) },
    // The sketch may overcount: the number is an upper bound.
    { head, class: "number", cell: key => (key.error > 0 ? `≤${exact(key.count)}` : exact(key.count)) },
  ] });
}

function blocksTable(look) {
  return table({ caption: "Active blocks", empty: "No blocked keys.", keyOf, columns: [
    { head: "Key", cell: keyCell(look) },
    { head: "Domain", cell: once(block => value(block.domain, 40)) },
    { head: "Until", cell: block => el("span", {}, time(block.until_ms), ` (${relative(block.until_ms)})`) },
    { head: "By", cell: once(block => (block.by ? value(block.by, 40) : el("span", {}, "this node"))) },
  ] });
}
