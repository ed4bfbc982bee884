// What if the rules were others: recent traffic, or an access log, decided again.

import { get, post, Refused, why } from "./api.js";
import { button, choice, el, field, notify, set, show, tell } from "./dom.js";
import { errorText } from "./explain.js";
import { outlook } from "./outlook.js";
import { filesOf } from "./yaml.js";

export const title = "What if";

const MOST_FILES = 32;
/** The page refuses what the server would refuse anyway. */
const LARGEST_LOG = 7 << 20;

/** What was written stays while other views are looked at. */
let kept = [{ name: "rules.yaml", text: "" }];

export function mount(place) {
  const files = el("div", { class: "files" });
  const result = el("div", { class: "outlook", "aria-live": "polite" });
  const source = sourceFields();
  const run = el("button", { type: "submit", class: "main" }, "Try it");
  const begin = button("Begin with the rules in force", () => takeRules(files));
  const form = el("form", { on: { submit: async event => {
    event.preventDefault();
    set(run, "disabled", true);
    tell(run, "Deciding…");
    try {
      await simulate(files, source, result);
    } finally {
      tell(run, "Try it");
      set(run, "disabled", null);
    }
  } } },
    el("div", { class: "columns editor" },
      el("section", { class: "panel" }, el("h2", {}, "Rules"), files, el("div", { class: "actions" }, begin, openButton(files),
        button("Add a file", () => add(files, { name: `rules-${files.childElementCount + 1}.yaml`, text: "" }).querySelector("textarea").focus(), { class: "quiet" }))),
      el("div", { class: "outlook" }, el("section", { class: "panel" }, el("h2", {}, "Traffic"), source.box, el("div", { class: "actions" }, run)), result)));
  show(place, el("h1", { tabindex: "-1" }, title), el("p", { class: "quiet-text" }, "Traffic is decided again under other rules. Nothing changes for anybody."), form);
  kept.forEach(file => add(files, file));
  return () => {
    kept = read(files);
  };
}

function add(files, { name, text }) {
  const nameField = el("input", { required: true, autocomplete: "off", spellcheck: "false", "data-part": "name" });
  const area = el("textarea", { rows: Math.min(24, Math.max(8, text.split("\n").length + 1)), spellcheck: "false", required: true, autocapitalize: "off", placeholder: "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 100}" });
  nameField.value = name;
  area.value = text;
  const row = el("div", { class: "file", role: "group", "aria-label": `File ${files.childElementCount + 1}` }, field("File", nameField), field("Text", area),
    files.childElementCount > 0 && button("Remove", () => row.remove(), { class: "quiet" }));
  if (files.childElementCount < MOST_FILES) files.append(row);
  return row;
}

const read = files => [...files.children].map(row => ({ name: row.querySelector("[data-part=name]").value, text: row.querySelector("textarea").value }));

function replace(files, all) {
  files.replaceChildren();
  all.slice(0, MOST_FILES).forEach(file => add(files, file));
}

async function takeRules(files) {
  try {
    const rules = [];
    let cursor = "";
    do {
      const page = await get(`/rules?limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      rules.push(...page.items);
      cursor = page.next ?? "";
    } while (cursor && rules.length < 20_000);
    if (rules.length === 0) {
      notify("There are no rules in force.", "warn");
      return;
    }
    replace(files, filesOf(rules));
    notify("Written from what is in force: keys, values, limits and modes. Whatever else your files say is left out.");
  } catch (error) {
    notify(why(error), "bad");
  }
}

/** Files from the reader's own disk; they go to this server and nowhere else. */
function openButton(files) {
  const input = el("input", { type: "file", accept: ".yaml,.yml", multiple: true, class: "hidden", tabindex: "-1", "aria-hidden": "true" });
  input.addEventListener("change", async () => {
    const all = await Promise.all([...input.files].slice(0, MOST_FILES).map(async file => ({ name: file.name, text: await file.text() })));
    if (all.length > 0) replace(files, all);
    input.value = "";
  });
  return [button("Open files…", () => input.click()), input];
}

function sourceFields() {
  const radio = (value, checked) => el("input", { type: "radio", name: "source", value, checked });
  const recent = radio("recent", true);
  const fromLog = radio("log", false);
  const file = el("input", { type: "file" });
  const format = choice([["combined", "combined (nginx, Apache)"], ["jsonl", "JSON lines (hivemind replay)"]], "combined");
  const domain = el("input", { autocomplete: "off", spellcheck: "false" });
  const names = el("input", { autocomplete: "off", spellcheck: "false", value: "remote_address" });
  const ofCombined = el("div", {}, field("Domain", domain, "Whose rules decide it; where there is one domain, it is that"), field("Entries", names, "Of the descriptor, with commas between them"));
  format.addEventListener("change", () => set(ofCombined, "hidden", format.value !== "combined"));
  const more = el("div", { hidden: true }, field("Access log", file), field("Format", format), ofCombined);
  const box = el("fieldset", { class: "source", on: { change: () => set(more, "hidden", recent.checked) } }, el("legend", {}, "Decide again"),
    el("label", {}, recent, " the traffic of the last minutes"), el("label", {}, fromLog, " an access log"), more);
  return {
    box,
    async read() {
      if (recent.checked) return { recent: true };
      const chosen = file.files[0];
      if (!chosen) throw new Error("Choose an access log first.");
      if (chosen.size > LARGEST_LOG) throw new Error("That log is longer than 7 MB: send a part of it, or try it with hivemind replay.");
      const log = { log: await chosen.text(), format: format.value };
      if (format.value !== "combined") return log;
      const entries = names.value.split(",").map(name => name.trim()).filter(Boolean);
      return { ...log, ...(domain.value ? { domain: domain.value } : {}), ...(entries.length > 0 ? { entries } : {}) };
    },
  };
}

async function simulate(files, source, result) {
  try {
    const asked = { rules: read(files), source: await source.read() };
    show(result, outlook(await post("/simulate", asked)));
  } catch (error) {
    show(result, el("section", { class: "panel" }, refused(error)));
  }
}

function refused(error) {
  if (!(error instanceof Refused)) return el("p", { class: "bad" }, error.constructor === Error ? error.message : why(error));
  return el("div", {}, el("h2", { class: "bad" }, error.title), el("p", {}, error.message), errorText(error.problem.errors));
}
