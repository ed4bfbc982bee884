// What if the rules were others: recent traffic, or an access log, decided again.

import { get, post, Refused, why } from "./api.js";
import { confirmed } from "./confirm.js";
import { announcer, busy, button, choice, el, field, isBusy, notify, set, show, tell } from "./dom.js";
import { errorText } from "./explain.js";
import { exact } from "./format.js";
import { outlook, verdict } from "./outlook.js";
import { filesOf } from "./yaml.js";

export const title = "What if";

/** The page refuses what the server would refuse anyway: a part of the rules would answer another question. */
const MOST_FILES = 256;
const LARGEST = 8 << 20;
const TOO_LARGE = "That log is too long, with the rules: 8 MB are taken. Send a part of it, or try it with hivemind replay.";
/** More are not read into a page. */
const MOST_RULES = 20_000;
const CAVEAT = "Written from what is in force: keys, values, limits and modes. Whatever else your files say is left out.";

/** What was written stays while other views are looked at. */
let kept = [{ name: "rules.yaml", text: "" }];
/** What the page itself put there; whatever differs from it is somebody's work. */
let given = JSON.stringify(kept);
/** Whether it is the rules in force that were put there. */
let isInForce = false;

export function mount(place) {
  const files = el("div", { class: "files" });
  const result = el("div", { class: "outlook" });
  // All that comes out is too much to be read out.
  const said = announcer();
  const caveat = el("p", { class: "warn caveat", hidden: !isInForce }, CAVEAT);
  const source = sourceFields();
  const run = el("button", { type: "submit", class: "main" }, "Try it");
  const begin = button("Begin with the rules in force", () => takeRules(files, caveat));
  const form = el("form", { on: { submit: async event => {
    event.preventDefault();
    if (isBusy(run)) return;
    busy(run, true);
    tell(run, "Deciding…");
    try {
      tell(said, await simulate(files, source, result));
    } finally {
      tell(run, "Try it");
      busy(run, false);
    }
  } } },
    el("div", { class: "columns editor" },
      el("section", { class: "panel" }, el("h2", {}, "Rules"), caveat, files, el("div", { class: "actions" }, begin, openButton(files, caveat),
        button("Add a file", () => addEmpty(files), { class: "quiet" }))),
      el("div", { class: "outlook" }, el("section", { class: "panel" }, el("h2", {}, "Traffic"), source.box, el("div", { class: "actions" }, run)), result, said)));
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
  const row = el("div", { class: "file", role: "group" }, field("File", nameField), field("Text", area),
    files.childElementCount > 0 && button("Remove", () => {
      // Who pressed it goes on at a neighbour; there is always one.
      (row.nextElementSibling ?? row.previousElementSibling).querySelector("input").focus();
      row.remove();
      number(files);
    }, { class: "quiet" }));
  files.append(row);
  number(files);
  return row;
}

const number = files => [...files.children].forEach((row, index) => set(row, "aria-label", `File ${index + 1}`));

const tooMany = what => notify(`${what}: the server takes ${MOST_FILES} files at most, and a part of them would give another answer. Try it with hivemind replay.`, "bad");

function addEmpty(files) {
  const have = files.childElementCount;
  if (have >= MOST_FILES) tooMany(`There are ${have} files`);
  else add(files, { name: `rules-${have + 1}.yaml`, text: "" }).querySelector("textarea").focus();
}

const read = files => [...files.children].map(row => ({ name: row.querySelector("[data-part=name]").value, text: row.querySelector("textarea").value }));

/** Puts these files in the place of those that are there, unless somebody's work would be lost by it. */
async function replace(files, caveat, all, areInForce) {
  const now = read(files);
  const isChanged = JSON.stringify(now) !== given && now.some(file => file.text.trim() !== "");
  const question = { title: "Replace what is written here?", act: "Replace", isGrave: true, text: "The rules were changed since they were put here, and the changes are kept nowhere else." };
  if (isChanged && !(await confirmed(question))) return;
  files.replaceChildren();
  all.forEach(file => add(files, file));
  given = JSON.stringify(read(files));
  isInForce = areInForce;
  set(caveat, "hidden", !isInForce);
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
    if (cursor) notify(`There are more than ${exact(MOST_RULES)} rules, and a part of them would give another answer. Open your files, or try it with hivemind replay.`, "bad");
    else if (rules.length === 0) notify("There are no rules in force.", "warn");
    else if (written.length > MOST_FILES) tooMany(`There are ${exact(written.length)} domains`);
    else await replace(files, caveat, written, true);
  } catch (error) {
    notify(why(error), "bad");
  }
}

/** Files from the reader's own disk; they go to this server and nowhere else. */
function openButton(files, caveat) {
  const input = el("input", { type: "file", accept: ".yaml,.yml", multiple: true, class: "hidden", tabindex: "-1", "aria-hidden": "true" });
  input.addEventListener("change", async () => {
    const chosen = [...input.files];
    input.value = "";
    if (chosen.length > MOST_FILES) tooMany(`That are ${exact(chosen.length)} files`);
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
      if (chosen.size > LARGEST) throw new Error(TOO_LARGE);
      const log = { log: await chosen.text(), format: format.value };
      if (format.value !== "combined") return log;
      const entries = names.value.split(",").map(name => name.trim()).filter(Boolean);
      return { ...log, ...(domain.value ? { domain: domain.value } : {}), ...(entries.length > 0 ? { entries } : {}) };
    },
  };
}

/** Shows what came out; the answer is the sentence that it comes to. */
async function simulate(files, source, result) {
  try {
    const asked = { rules: read(files), source: await source.read() };
    // As it is sent: a quote takes two bytes there.
    if (new Blob([JSON.stringify(asked)]).size > LARGEST) throw new Error(TOO_LARGE);
    const found = await post("/simulate", asked);
    show(result, outlook(found));
    return verdict(found);
  } catch (error) {
    show(result, el("section", { class: "panel" }, refused(error)));
    return reasonOf(error);
  }
}

/** Choices that were not made are errors of this page's own, and have their sentence. */
const reasonOf = error => (error.constructor === Error ? error.message : why(error));

function refused(error) {
  if (!(error instanceof Refused)) return el("p", { class: "bad" }, reasonOf(error));
  return el("div", {}, el("h2", { class: "bad" }, error.title), el("p", {}, error.message), errorText(error.problem.errors));
}
