// How the node is set up: what is loaded, what is wrong with it, and how loud the log is.

import { get, post, put, Refused, why } from "./api.js";
import { busy, button, choice, el, field, isBusy, keep, notify, show, tell } from "./dom.js";
import { errorText, visibleText } from "./explain.js";
import { exact, now, span, time, value, visible } from "./format.js";
import { fresh, live, on } from "./live.js";

export const title = "Configuration";

const LEVELS = ["off", "error", "warn", "info", "debug", "trace"];
const KINDS = { ok: "good", degraded: "warn", failed: "bad", off: "" };

export function mount(place) {
  const status = el("p", { class: "headline" }, "Loading…");
  const about = el("dl", { class: "facts" });
  const components = el("ul", { class: "components" });
  const errors = el("div", { class: "errors" });
  const result = el("div", { class: "errors" });
  const reload = button("Reload now", () => reloadNow(reload, result), { class: "main" });
  const log = logForm();
  show(place, el("h1", { tabindex: "-1" }, title), status, errors,
    el("div", { class: "columns" },
      el("section", { class: "panel" }, el("h2", {}, "Loaded"), about, el("div", { class: "actions" }, reload), result),
      el("section", { class: "panel" }, el("h2", {}, "Components"), components, el("h2", {}, "Log"), log.box)));

  const update = () => {
    const { config, version } = live;
    if (!config) return;
    tell(status, config.is_ready ? "Ready: requests are decided." : "Not ready: see what has failed below.");
    // Told every few seconds, and mostly the same: what somebody reads or marks stays.
    keep(errors, [config.rules, config.config], () => [mistakes("The rules have mistakes; those loaded before stay in force", config.rules), mistakes("The configuration has mistakes; the one loaded before stays in force", config.config)]);
    keep(components, config.components, () => Object.entries(config.components ?? {}).map(([name, one]) => el("li", {}, el("span", { class: `tag ${KINDS[one.state] ?? ""}` }, one.state), " ", el("strong", {}, visible(name)), one.reason ? el("p", { class: "quiet-text" }, visible(one.reason, 400)) : null)));
    keep(about, [config, version && { ...version, uptime_ms: 0 }], () => facts(config, version).flatMap(([name, content]) => [el("dt", {}, name), el("dd", {}, content)]));
    const started = about.querySelector(".since");
    if (started && version) tell(started, ` (${span(now() - version.started_ms)} ago)`);
  };
  update();
  fresh("config", "/config").catch(error => tell(status, why(error)));
  if (!live.version) fresh("version", "/version").catch(() => {});
  log.read();
  const ends = [on("config", update), on("version", update)];
  return () => ends.forEach(end => end());
}

function facts({ rules, config }, version) {
  const path = text => (text ? el("code", {}, value(text, 200)) : "none");
  const all = [["Rules", el("span", {}, `${exact(rules?.loaded)} in ${exact(rules?.domains)} ${rules?.domains === 1 ? "domain" : "domains"}`)], ["From", path(rules?.path)]];
  if (rules?.loaded_ms) all.push(["Loaded", time(rules.loaded_ms)]);
  all.push(["Configuration", path(config?.path)]);
  if (version) {
    all.push(["Version", version.version], ["Storage", version.storage]);
    if (version.node) all.push(["Node", value(version.node, 60)]);
    all.push(["Started", el("span", {}, time(version.started_ms), el("span", { class: "since" }))]);
    if (config?.needs_restart?.length > 0) all.push(["Not before a restart", el("span", { class: "warn" }, visible([config.needs_restart].flat().join(", "), 400))]);
    all.push(["Limiting", version.enabled === false ? "off" : version.shadow_mode ? "shadow mode" : "on"]);
  }
  return all;
}

/** Exactly as the command line shows them. */
function mistakes(heading, part) {
  if (!part?.last_error) return null;
  return el("section", { class: "panel mistakes" }, el("h2", {}, heading), part.last_error_ms ? el("p", { class: "quiet-text" }, "Found at ", time(part.last_error_ms)) : null, el("pre", { tabindex: "0" }, visibleText(part.last_error)));
}

async function reloadNow(control, result) {
  if (isBusy(control)) return;
  busy(control, true);
  try {
    const answer = await post("/reload");
    const notes = Object.entries(answer).flatMap(([what, one]) => (one?.notes ?? []).map(note => `${what}: ${note}`));
    notify("Everything is loaded anew.");
    show(result, notes.length > 0 ? el("pre", { tabindex: "0" }, visibleText(notes.join("\n"))) : null);
  } catch (error) {
    notify(why(error), "bad");
    const parts = error instanceof Refused ? Object.entries(error.problem).filter(([, one]) => one?.errors) : [];
    show(result, parts.map(([what, one]) => [el("h3", { class: "bad" }, `Refused: ${what}`), errorText(one.errors)]).flat());
  } finally {
    busy(control, false);
  }
  fresh("config", "/config").catch(() => {});
}

function logForm() {
  const level = choice(LEVELS.map(name => [name, name]), "info");
  const told = choice([["false", "none"], ["denied", "the refused ones"], ["true", "all"]], "false");
  let asked = 0;
  /** One after the other: of two at once nobody knows which is in force at the end. */
  let sent = Promise.resolve();
  const change = body => {
    const own = (asked += 1);
    sent = sent.then(() => put("/log", body)).then(now => {
      // What somebody chose meanwhile stays as it was chosen.
      if (own === asked) take(now);
      notify("The log is changed, until the next start.");
    }).catch(error => {
      notify(why(error), "bad");
      if (own === asked) read();
    });
  };
  const take = now => {
    level.value = now.level;
    told.value = String(now.decisions?.log);
  };
  const read = () => {
    const own = (asked += 1);
    get("/log").then(now => own === asked && take(now)).catch(() => {});
  };
  level.addEventListener("change", () => change({ level: level.value }));
  told.addEventListener("change", () => change({ decisions: { log: told.value === "denied" ? "denied" : told.value === "true" } }));
  return { box: el("div", { class: "filters" }, field("Level", level), field("Decisions in the log", told)), read };
}
