// What-if view: decides recent traffic or an access log again under other rules.

import { get, post, Refused, why } from "./api.js";
import { confirmed } from "./confirm.js";
import { announcer, busy, button, choice, el, field, isBusy, notify, set, show, setText } from "./dom.js";
import { errorText } from "./explain.js";
import { exact } from "./format.js";
import { outlook, verdict } from "./outlook.js";
import { filesOf } from "./yaml.js";

export const title = "What if";

/** Limits of the server, checked here as well: with only a part of the rules, the result would be wrong. */
const MOST_FILES = 256;
const LARGEST = 8 << 20;
const TOO_LARGE = "Log and rules are too long: the maximum is 8 MB. Send a part of the log, or use hivemind replay.";
/** Maximum number of rules loaded into the page. */
const MOST_RULES = 20_000;
const CAVEAT = "Generated from the active rules: keys, values, limits and modes. Other parts of your files are omitted.";

/** Edited files, kept while other views are open. */
let kept = [{ name: "rules.yaml", text: "" }];
/** Content filled in by the page; anything else was edited by the user. */
let given = JSON.stringify(kept);
/** Whether that content is the active rules. */
let isActive = false;

export function mount(place) {
  const files = el("div", { class: "files" });
  const result = el("div", { class: "outlook" });
  // The whole result is too long to be announced.
  const said = announcer();
  const caveat = el("p", { class: "warn caveat", hidden: !isActive }, CAVEAT);
  const source = sourceFields();
  const run = el("button", { type: "submit", class: "main" }, "Try it");
  const begin = button("Start with the active rules", () => takeRules(files, caveat));
  const form = el("form", { on: { submit: async event => {
    event.preventDefault();
    if (isBusy(run)) return;
    busy(run, true);
    setText(run, "Deciding…");
    try {
      setText(said, await simulate(files, source, result));
    } finally {
      setText(run, "Try it");
      busy(run, false);
    }
  } } },
    el("div", { class: "columns editor" },
      el("section", { class: "panel" }, el("h2", {}, "Rules"), caveat, files, el("div", { class: "actions" }, begin, openButton(files, caveat),
        button("Add a file", () => addEmpty(files), { class: "quiet" }))),
      el("div", { class: "outlook" }, el("section", { class: "panel" }, el("h2", {}, "Traffic"), source.box, el("div", { class: "actions" }, run)), result, said)));
  show(place, el("h1", { tabindex: "-1" }, title), el("p", { class: "quiet-text" }, "Decides traffic again under other rules. Clients are not affected."), form);
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
  const row = el("div", { class: "file", role: "group" }, field("File", nameField), field("Text", area),
    files.childElementCount > 0 && button("Remove", () => {
      // The focus moves to a neighbor; there is always one.
      (row.nextElementSibling ?? row.previousElementSibling).querySelector("input").focus();
      row.remove();
      number(files);
    }, { class: "quiet" }));
  files.append(row);
  number(files);
  return row;
}

const number = files => [...files.children].forEach((row, index) => set(row, "aria-label", `File ${index + 1}`));

const tooMany = what => notify(`${what}: the server accepts at most ${MOST_FILES} files, and with only a part of them the result would be wrong. Use hivemind replay.`, "bad");

function addEmpty(files) {
  const have = files.childElementCount;
  if (have >= MOST_FILES) tooMany(`There are ${have} files`);
  else add(files, { name: `rules-${have + 1}.yaml`, text: "" }).querySelector("textarea").focus();
}

const read = files => [...files.children].map(row => ({ name: row.querySelector("[data-part=name]").value, text: row.querySelector("textarea").value }));

/** Replaces the files; asks first if edits would be lost. */
async function replace(files, caveat, all, areActive) {
  const now = read(files);
  const isChanged = JSON.stringify(now) !== given && now.some(file => file.text.trim() !== "");
  const question = { title: "Replace the edited rules?", act: "Replace", isGrave: true, text: "Your edits are not saved anywhere else." };
  if (isChanged && !(await confirmed(question))) return;
  files.replaceChildren();
  all.forEach(file => add(files, file));
  given = JSON.stringify(read(files));
  isActive = areActive;
  set(caveat, "hidden", !isActive);
}

async function takeRules(files, caveat) {
  try {
    const rules = [];
    let cursor = "";
    do {
      const page = await get(`/rules?limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      rules.push(...page.items);
      cursor = page.next ?? "";
    } while (cursor && rules.length < MOST_RULES);
    const written = cursor ? [] : filesOf(rules);
    if (cursor) notify(`There are more than ${exact(MOST_RULES)} rules, and with only a part of them the result would be wrong. Open your files, or use hivemind replay.`, "bad");
    else if (rules.length === 0) notify("No active rules.", "warn");
    else if (written.length > MOST_FILES) tooMany(`There are ${exact(written.length)} domains`);
    else await replace(files, caveat, written, true);
  } catch (error) {
    notify(why(error), "bad");
  }
}

/** Opens local files; they are sent only to this server. */
function openButton(files, caveat) {
  const input = el("input", { type: "file", accept: ".yaml,.yml", multiple: true, class: "hidden", tabindex: "-1", "aria-hidden": "true" });
  input.addEventListener("change", async () => {
    const chosen = [...input.files];
    input.value = "";
    if (chosen.length > MOST_FILES) tooMany(`You chose ${exact(chosen.length)} files`);
    else if (chosen.length > 0) await replace(files, caveat, await Promise.all(chosen.map(async file => ({ name: file.name, text: await file.text() }))), false);
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
  const ofCombined = el("div", {}, field("Domain", domain, "The domain of the rules; optional if there is only one"), field("Entries", names, "Entries of the descriptor, separated by commas"));
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
      if (chosen.size > LARGEST) throw new Error(TOO_LARGE);
      const log = { log: await chosen.text(), format: format.value };
      if (format.value !== "combined") return log;
      const entries = names.value.split(",").map(name => name.trim()).filter(Boolean);
      return { ...log, ...(domain.value ? { domain: domain.value } : {}), ...(entries.length > 0 ? { entries } : {}) };
    },
  };
}

/** Runs the simulation and shows the result; returns it as a sentence. */
async function simulate(files, source, result) {
  try {
    const asked = { rules: read(files), source: await source.read() };
    // Measured as JSON, where a quote takes two bytes.
    if (new Blob([JSON.stringify(asked)]).size > LARGEST) throw new Error(TOO_LARGE);
    const found = await post("/simulate", asked);
    show(result, outlook(found));
    return verdict(found);
  } catch (error) {
    show(result, el("section", { class: "panel" }, refused(error)));
    return reasonOf(error);
  }
}

/** Errors of this page, such as a missing choice, have their own text. */
const reasonOf = error => (error.constructor === Error ? error.message : why(error));

function refused(error) {
  if (!(error instanceof Refused)) return el("p", { class: "bad" }, reasonOf(error));
  return el("div", {}, el("h2", { class: "bad" }, error.title), el("p", {}, error.message), errorText(error.problem.errors));
}
