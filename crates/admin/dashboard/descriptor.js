// Input fields for a domain and descriptor entries.

import { button, el, field, set } from "./dom.js";
import { live } from "./live.js";

const MOST_PARTS = 16;
let lists = 0;

/** The fields: `{ box, submit(text), read(), write(domain, entries) }`. */
export function descriptorFields() {
  const list = el("datalist", { id: `domains-${(lists += 1)}` });
  const domain = el("input", { required: true, autocomplete: "off", spellcheck: "false", list: list.id });
  // Suggests the domains seen so far.
  domain.addEventListener("focus", () => list.replaceChildren(...(live.stats?.domains ?? []).slice(0, 100).map(one => el("option", { value: one.domain }))));
  const parts = el("div", { class: "parts" });
  const more = button("Add an entry", () => add("", "").querySelector("input").focus(), { class: "quiet" });

  const another = el("p", { class: "warn", role: "status", hidden: true }, "The fields cannot hold this key: it has a line break, an entry without a key, or more than 16 entries. The displayed part is correct; to look up another key, change the fields.");
  const submits = [];
  /** Whether the fields cannot represent the whole key. */
  let isMore = false;

  /** Input fields remove line breaks, which would change the key. */
  function put(control, text) {
    control.value = text;
    set(control, "aria-invalid", control.value === text ? null : "true");
  }

  function judge() {
    const isAnother = isMore || box.querySelector("[aria-invalid]") !== null;
    set(another, "hidden", !isAnother);
    for (const submit of submits) submit.disabled = isAnother;
  }

  /** Renumbers the entries after one was removed. */
  function number() {
    [...parts.children].forEach((row, index) => {
      set(row, "aria-label", `Part ${index + 1}`);
      const remove = row.querySelector("button");
      if (remove) set(remove, "aria-label", `Remove part ${index + 1}`);
    });
  }

  function add(key, value) {
    const isFirst = parts.childElementCount === 0;
    const keyField = el("input", { autocomplete: "off", spellcheck: "false", required: isFirst || value !== "", "data-part": "key" });
    const valueField = el("input", { autocomplete: "off", spellcheck: "false", "data-part": "value" });
    put(keyField, key);
    put(valueField, value);
    // A value without a key is invalid; ignoring it would look up another key.
    valueField.addEventListener("input", () => set(keyField, "required", isFirst || valueField.value !== ""));
    const row = el("div", { class: "part", role: "group" }, field("Key", keyField), field("Value", valueField),
      !isFirst && button("Remove", () => {
        row.remove();
        isMore = false;
        number();
        judge();
        more.disabled = false;
        more.focus();
      }, { class: "quiet" }));
    parts.append(row);
    number();
    more.disabled = parts.childElementCount >= MOST_PARTS;
    return row;
  }
  add("", "");

  const box = el("div", { class: "descriptor" }, field("Domain", domain), list, parts, more, another);
  // Editing replaces a key that the fields could not hold.
  box.addEventListener("input", event => {
    set(event.target, "aria-invalid", null);
    isMore = false;
    judge();
  });

  return {
    box,
    /** The submit button; disabled if the fields cannot hold the key. */
    submit(text) {
      submits.push(el("button", { type: "submit", class: "main" }, text));
      return submits.at(-1);
    },
    read: () => ({
      domain: domain.value,
      entries: [...parts.children].map(row => ({ key: row.querySelector("[data-part=key]").value, value: row.querySelector("[data-part=value]").value })).filter(entry => entry.key !== ""),
    }),
    write(newDomain, entries) {
      put(domain, newDomain);
      isMore = entries.length > MOST_PARTS || entries.some(entry => entry.key === "");
      parts.replaceChildren();
      for (const entry of entries.slice(0, MOST_PARTS)) add(entry.key, entry.value ?? "");
      if (entries.length === 0) add("", "");
      judge();
    },
  };
}
