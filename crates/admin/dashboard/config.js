// Configuration view: loaded files, their errors, components and log levels.

import { get, post, put, Refused, why } from "./api.js";
import { busy, button, choice, el, field, isBusy, keep, notify, show, setText } from "./dom.js";
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
    setText(status, config.is_ready ? "Ready: deciding requests." : "Not ready: see the failed components below.");
    // Updates arrive every few seconds and are mostly equal: focus and selection are kept.
    keep(errors, [config.rules, config.config], () => [mistakes("Invalid rules; the previous rules stay active", config.rules), mistakes("Invalid configuration; the previous one stays active", config.config)]);
    keep(components, config.components, () => Object.entries(config.components ?? {}).map(([name, one]) => el("li", {}, el("span", { class: `tag ${KINDS[one.state] ?? ""}` }, one.state), " ", el("strong", {}, visible(name)), one.reason ? el("p", { class: "quiet-text" }, visible(one.reason, 400)) : null)));
    keep(about, [config, version && { ...version, uptime_ms: 0 }], () => facts(config, version).flatMap(([name, content]) => [el("dt", {}, name), el("dd", {}, content)]));
    const started = about.querySelector(".since");
    if (started && version) setText(started, ` (${span(now() - version.started_ms)} ago)`);
  };
  update();
  fresh("config", "/config").catch(error => setText(status, why(error)));
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
    if (config?.needs_restart?.length > 0) all.push(["After a restart", el("span", { class: "warn" }, visible([config.needs_restart].flat().join(", "), 400))]);
    all.push(["Limiting", version.enabled === false ? "off" : version.shadow_mode ? "shadow mode" : "on"]);
  }
  return all;
}

/** Errors in the format of the command line. */
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
    notify("Everything was reloaded.");
    show(result, notes.length > 0 ? el("pre", { tabindex: "0" }, visibleText(notes.join("\n"))) : null);
  } catch (error) {
    notify(why(error), "bad");
    const parts = error instanceof Refused ? Object.entries(error.problem).filter(([, one]) => one?.errors) : [];
    show(result, parts.map(([what, one]) => [el("h3", { class: "bad" }, `Invalid: ${what}`), errorText(one.errors)]).flat());
  } finally {
    busy(control, false);
  }
  fresh("config", "/config").catch(() => {});
}

function logForm() {
  const level = choice(LEVELS.map(name => [name, name]), "info");
  const decisions = choice([["false", "none"], ["denied", "refused only"], ["true", "all"]], "false");
  let asked = 0;
  /** Sends changes one after the other: with two at once, the final state would be unknown. */
  let sent = Promise.resolve();
  const change = body => {
    const own = (asked += 1);
    sent = sent.then(() => put("/log", body)).then(now => {
      // A newer choice is not overwritten by this response.
      if (own === asked) take(now);
      notify("The log settings are changed until the next restart.");
    }).catch(error => {
      notify(why(error), "bad");
      if (own === asked) read();
    });
  };
  const take = now => {
    level.value = now.level;
    decisions.value = String(now.decisions?.log);
  };
  const read = () => {
    const own = (asked += 1);
    get("/log").then(now => own === asked && take(now)).catch(() => {});
  };
  level.addEventListener("change", () => change({ level: level.value }));
  decisions.addEventListener("change", () => change({ decisions: { log: decisions.value === "denied" ? "denied" : decisions.value === "true" } }));
  return { box: el("div", { class: "filters" }, field("Level", level), field("Decisions in the log", decisions)), read };
}
