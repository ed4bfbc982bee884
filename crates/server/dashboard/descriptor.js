// The fields for a domain and the parts of a descriptor.

import { button, el, field } from "./dom.js";
import { live } from "./live.js";

const MOST_PARTS = 16;
let lists = 0;

/** Fields and what is in them: `{ box, read(), write(domain, entries) }`. */
export function descriptorFields() {
  const list = el("datalist", { id: `domains-${(lists += 1)}` });
  const domain = el("input", { required: true, autocomplete: "off", spellcheck: "false", list: list.id });
  // The domains are those that were asked about so far.
  domain.addEventListener("focus", () => list.replaceChildren(...(live.stats?.domains ?? []).slice(0, 100).map(one => el("option", { value: one.domain }))));
  const parts = el("div", { class: "parts" });
  const more = button("Add a part", () => add("", "").querySelector("input").focus(), { class: "quiet" });

  function add(key, value) {
    const number = parts.childElementCount + 1;
    const keyField = el("input", { autocomplete: "off", spellcheck: "false", required: number === 1, "data-part": "key" });
    const valueField = el("input", { autocomplete: "off", spellcheck: "false", "data-part": "value" });
    keyField.value = key;
    valueField.value = value;
    const row = el("div", { class: "part", role: "group", "aria-label": `Part ${number}` }, field("Key", keyField), field("Value", valueField),
      number > 1 && button("Remove", () => {
        row.remove();
        more.disabled = false;
        more.focus();
      }, { class: "quiet", "aria-label": `Remove part ${number}` }));
    parts.append(row);
    more.disabled = parts.childElementCount >= MOST_PARTS;
    return row;
  }
  add("", "");

  return {
    box: el("div", { class: "descriptor" }, field("Domain", domain), list, parts, more),
    read: () => ({
      domain: domain.value,
      entries: [...parts.children].map(row => ({ key: row.querySelector("[data-part=key]").value, value: row.querySelector("[data-part=value]").value })).filter(entry => entry.key !== ""),
    }),
    write(newDomain, entries) {
      domain.value = newDomain;
      parts.replaceChildren();
      for (const entry of entries.slice(0, MOST_PARTS)) add(entry.key, entry.value ?? "");
      if (entries.length === 0) add("", "");
    },
  };
}
