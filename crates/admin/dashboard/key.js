// Key panel: remaining limits of one key, and operator actions.

import { post, Refused, why } from "./api.js";
import { confirmed } from "./confirm.js";
import { button, choice, el, field, notify, set, show } from "./dom.js";
import { entries, exact, limit, line, relative, span, time, value, visible } from "./format.js";
import { live } from "./live.js";

const SPANS = [["60000", "1 minute"], ["300000", "5 minutes"], ["900000", "15 minutes"], ["3600000", "1 hour"], ["21600000", "6 hours"], ["86400000", "1 day"], ["604800000", "7 days"]];

/** Shows a key in an element, updated after each change, and then calls `changed`. Returns `{ show(subject), refresh() }`. */
export function keyPanel(place, changed) {
  let subject = null;
  /** The displayed data without the numbers. */
  let frame = null;
  let asked = 0;
  let waiting = 0;

  async function look(isQuiet) {
    const own = (asked += 1);
    waiting += 1;
    try {
      const found = await post("/keys/lookup", subjectOf(subject));
      // A late response to an earlier request is ignored, and an open dialog refers to the displayed state.
      if (own !== asked || (isQuiet && document.querySelector("dialog"))) return;
      const framed = JSON.stringify([subject, found.rule, found.blocked_until_ms, found.limits.length]);
      // If only numbers changed, focus and screen readers keep their place.
      if (isQuiet && framed === frame) place.querySelector(".limits").replaceWith(limitsOf(found));
      else put([head(subject, found), limitsOf(found), actions(subject, found, again)]);
      frame = framed;
    } catch (error) {
      // The bar shows that the server is unreachable.
      if (own !== asked || (isQuiet && !(error instanceof Refused))) return;
      frame = null;
      put([head(subject, {}), el("p", { class: "bad", role: "alert" }, why(error))]);
    } finally {
      waiting -= 1;
    }
  }

  /** Replaces the content and keeps the focus inside. */
  function put(parts) {
    const isWithin = place.contains(document.activeElement);
    show(place, parts);
    if (isWithin) place.querySelector("h2").focus({ preventScroll: true });
  }

  async function again() {
    changed();
    await look(false);
    // The focused button may have been replaced.
    place.querySelector("h2")?.focus();
  }
  return {
    async show(key) {
      const isAnother = JSON.stringify(key) !== JSON.stringify(subject);
      subject = key;
      set(place, "hidden", false);
      // Removes the buttons of the previous key immediately, so that they are not used for this one.
      if (isAnother) {
        frame = null;
        put([head(subject, {}), el("p", { class: "empty" }, "Loading…")]);
      }
      set(place, "aria-busy", true);
      await look(false);
      set(place, "aria-busy", null);
    },
    /** Updates, unless a dialog is open, text is selected, or a request is pending. */
    async refresh() {
      if (subject && waiting === 0 && !document.querySelector("dialog") && document.getSelection().isCollapsed) await look(true);
    },
  };
}

const limitsOf = found => el("div", { class: "limits" }, found.limits.length > 0 ? found.limits.map(one) : el("p", { class: "empty" }, "No rule limits this key."));

const subjectOf = ({ domain, entries: list }) => ({ domain, entries: list.map(({ key, value: text }) => ({ key, value: text ?? "" })) });

function head(subject, found) {
  const until = found.blocked_until_ms;
  return el("header", { class: "key-head" },
    el("h2", { tabindex: "-1" }, entries(subject.entries, 120)),
    el("p", { class: "quiet-text" }, "in ", value(subject.domain)),
    until ? el("p", { class: "blocked" }, el("strong", {}, "Blocked"), " until ", time(until), ` (${relative(until)})`) : null);
}

function one(found) {
  const isSpent = found.remaining === 0;
  const meter = el("meter", { min: 0, max: Math.max(found.requests, found.burst ?? 0, 1), value: found.remaining ?? 0, low: 0.1 * found.requests, optimum: found.requests, "aria-label": `Left of ${limit(found)}` });
  return el("section", { class: "limit" },
    el("h3", {}, limit(found), found.mode && found.mode !== "enforce" ? el("span", { class: "tag" }, found.mode) : null),
    meter,
    el("p", {}, el("strong", { class: isSpent ? "bad" : null }, found.remaining === null ? "?" : exact(found.remaining)), " left", found.reset_ms > 0 ? ` · full again in ${span(found.reset_ms)}` : " · untouched"),
    found.mesh ? meshShare(found.mesh) : null);
}

/** The counter's owner, and the allowance of each node. */
function meshShare(mesh) {
  const owner = el("p", { class: "quiet-text" }, "Counted by ", value(mesh.owner), mesh.is_owner ? " (this node)" : "", `; held here: ${exact(mesh.held_here)}`);
  const held = Object.entries(mesh.held ?? {}).slice(0, 64);
  const notes = [
    mesh.held === null ? "The owner runs an earlier version and reports only its own share: other nodes may hold more." : null,
    mesh.held_by_others > 0 ? `Other nodes hold ${exact(mesh.held_by_others)}.` : null,
    mesh.unaccounted > 0 ? `Nodes joined or left: up to ${exact(mesh.unaccounted)} more may be held since before that.` : null,
  ].filter(Boolean);
  return el("div", {}, owner, held.length > 0 ? el("ul", { class: "held" }, held.map(([node, rights]) => el("li", {}, value(node), ` ${exact(rights)}`))) : null,
    notes.map(note => el("p", { class: "warn" }, note)));
}

function actions(subject, found, again) {
  const name = `${line(subject.entries)} in ${visible(subject.domain, 60)}`;
  const change = async (path, more, describe) => {
    try {
      const [text, kind] = [describe(await post(path, { ...subjectOf(subject), ...more }))].flat();
      notify(text, kind);
      await again();
    } catch (error) {
      notify(why(error), "bad");
    }
  };
  const block = async () => {
    const span = choice(SPANS, "900000");
    const chosen = await confirmed({ title: "Block this key?", isGrave: true, act: "Block", fields: [field("For", span)], read: () => Number(span.value),
      text: [`Every request of ${name} is refused for this time, ${reach(live.version?.storage)}.`, found.limits.length > 0 ? "" : UNMET, live.version?.shadow_mode ? SHADOW : ""].filter(Boolean).join(" ") });
    if (chosen !== null) await change("/keys/block", { for_ms: chosen }, blocked);
  };
  const unblock = async () => {
    if (await confirmed({ title: "Unblock this key?", act: "Unblock", text: `${name} is only limited by its rules again.` })) {
      await change("/keys/unblock", {}, answer => (answer.was_blocked ? "Unblocked." : "It was not blocked."));
    }
  };
  const reset = async () => {
    if (await confirmed({ title: "Reset this key?", act: "Reset", text: `The counters of ${name} are reset: it can spend its full limits again.` })) {
      await change("/keys/reset", {}, resetResult);
    }
  };
  const grant = async () => {
    const extra = el("input", { type: "number", min: 1, max: 1_000_000_000, step: 1, required: true, value: 10 });
    const chosen = await confirmed({ title: "Return some of the spent requests?", act: "Return", fields: [field("Requests", extra)], read: () => Number(extra.value),
      text: `${name} can send this many more requests before it is refused, up to its full limits.` });
    if (chosen !== null) await change("/keys/grant", { extra: chosen }, givenBack);
  };
  return el("div", { class: "actions" },
    found.blocked_until_ms ? button("Unblock…", unblock, { class: "main" }) : button("Block…", block, { class: "grave" }),
    found.limits.length > 0 ? [button("Reset…", reset), button("Return…", grant)] : null,
    button("Refresh", again, { class: "quiet" }));
}

/** Scope of a block. Only a mesh shares blocks; Redis shares only counters. Peers keep a block across a restart, a single node does not. */
const reach = scope => (scope === "mesh" ? "on all nodes of the mesh" : "on this node only, until it restarts");

const UNMET = "No rule limits it, so this only affects requests with their own limits.";
const SHADOW = "Shadow mode is on: requests are counted, but not refused.";

/** End and scope of a block, and whether it has an effect. */
function blocked({ blocked_until_ms: until, scope, limits }) {
  const text = `Blocked; it ends ${relative(until)}, ${reach(scope)}.`;
  return limits === 0 ? [`${text} ${UNMET}`, "bad"] : text;
}

/** Number of counters that were reset, and why some were not. */
function resetResult({ reset, crowded, in_doubt: inDoubt, why: reason }) {
  const counters = number => `${exact(number)} ${number === 1 ? "counter" : "counters"}`;
  const rest = [crowded ? `not ${counters(crowded)}` : null, inDoubt ? `only partly ${counters(inDoubt)}` : null].filter(Boolean);
  if (rest.length === 0) return `Reset: ${counters(reset)}.`;
  return [`Reset: ${counters(reset)}; ${rest.join("; ")}. ${visible(reason ?? "", 300)}`, "bad"];
}

/** Returned hits of each limit, and why it was less than requested. */
function givenBack({ limits }) {
  const whys = new Set(limits.map(each => each.why).filter(Boolean));
  const text = [`Returned: ${limits.map(each => exact(each.granted)).join(", ")}.`, ...whys].join(" ");
  return limits.every(each => each.granted === 0) ? [text, "bad"] : text;
}
