// One key: what is left of its limits, and what an operator can do about it.

import { post, Refused, why } from "./api.js";
import { confirmed } from "./confirm.js";
import { button, choice, el, field, notify, set, show } from "./dom.js";
import { entries, exact, limit, line, relative, span, time, value, visible } from "./format.js";
import { live } from "./live.js";

const SPANS = [["60000", "1 minute"], ["300000", "5 minutes"], ["900000", "15 minutes"], ["3600000", "1 hour"], ["21600000", "6 hours"], ["86400000", "1 day"], ["604800000", "7 days"]];

/** Shows a key in a place, and again after each change, of which `changed` is told: `{ show(subject), refresh() }`. */
export function keyPanel(place, changed) {
  let subject = null;
  /** Of what is shown all but the numbers. */
  let frame = null;
  let asked = 0;
  let waiting = 0;

  async function look(isQuiet) {
    const own = (asked += 1);
    waiting += 1;
    try {
      const found = await post("/keys/lookup", subjectOf(subject));
      // A slower answer to an older question must not win, and a question that was opened meanwhile is of what is shown.
      if (own !== asked || (isQuiet && document.querySelector("dialog"))) return;
      const framed = JSON.stringify([subject, found.rule, found.blocked_until_ms, found.limits.length]);
      // Where only numbers changed, the focus and whoever reads aloud stay where they are.
      if (isQuiet && framed === frame) place.querySelector(".limits").replaceWith(limitsOf(found));
      else put([head(subject, found), limitsOf(found), actions(subject, found, again)]);
      frame = framed;
    } catch (error) {
      // That the server is away is told in the bar.
      if (own !== asked || (isQuiet && !(error instanceof Refused))) return;
      frame = null;
      put([head(subject, {}), el("p", { class: "bad", role: "alert" }, why(error))]);
    } finally {
      waiting -= 1;
    }
  }

  /** All of it anew; who was in it stays in it. */
  function put(parts) {
    const isWithin = place.contains(document.activeElement);
    show(place, parts);
    if (isWithin) place.querySelector("h2").focus({ preventScroll: true });
  }

  async function again() {
    changed();
    await look(false);
    // The button that had the focus may be another one now.
    place.querySelector("h2")?.focus();
  }
  return {
    async show(key) {
      const isAnother = JSON.stringify(key) !== JSON.stringify(subject);
      subject = key;
      set(place, "hidden", false);
      // The buttons of the one before are gone before somebody can take them for this one's.
      if (isAnother) {
        frame = null;
        put([head(subject, {}), el("p", { class: "empty" }, "Loading…")]);
      }
      set(place, "aria-busy", true);
      await look(false);
      set(place, "aria-busy", null);
    },
    /** Again, unless somebody is asked a question, marks a text, or waits already. */
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
    el("p", {}, el("strong", { class: isSpent ? "bad" : null }, found.remaining === null ? "?" : exact(found.remaining)), " left", found.reset_ms > 0 ? ` · whole again in ${span(found.reset_ms)}` : " · untouched"),
    found.mesh ? meshShare(found.mesh) : null);
}

/** Who keeps the counter, and what each node holds of it. */
function meshShare(mesh) {
  const owner = el("p", { class: "quiet-text" }, "Counted by ", value(mesh.owner), mesh.is_owner ? " (this node)" : "", `; held here: ${exact(mesh.held_here)}`);
  const held = Object.entries(mesh.held ?? {}).slice(0, 64);
  const notes = [
    mesh.held === null ? "Its owner is of an earlier version and tells its own part: others may hold more." : null,
    mesh.held_by_others > 0 ? `Nodes that are not named hold ${exact(mesh.held_by_others)}.` : null,
    mesh.unaccounted > 0 ? `Nodes came or went: up to ${exact(mesh.unaccounted)} more may be held since before that, which only who has it knows.` : null,
  ].filter(Boolean);
  return el("div", {}, owner, held.length > 0 ? el("ul", { class: "held" }, held.map(([node, rights]) => el("li", {}, value(node), ` ${exact(rights)}`))) : null,
    notes.map(note => el("p", { class: "warn" }, note)));
}

function actions(subject, found, again) {
  const name = `${line(subject.entries)} in ${visible(subject.domain, 60)}`;
  const change = async (path, more, told) => {
    try {
      const [text, kind] = [told(await post(path, { ...subjectOf(subject), ...more }))].flat();
      notify(text, kind);
      await again();
    } catch (error) {
      notify(why(error), "bad");
    }
  };
  const block = async () => {
    const span = choice(SPANS, "900000");
    const chosen = await confirmed({ title: "Block this key?", isGrave: true, act: "Block", fields: [field("For", span)], read: () => Number(span.value),
      text: [`Every request of ${name} is refused until the time is over, ${reach(live.version?.storage)}.`, found.limits.length > 0 ? "" : UNMET, live.version?.shadow_mode ? SHADOW : ""].filter(Boolean).join(" ") });
    if (chosen !== null) await change("/keys/block", { for_ms: chosen }, blocked);
  };
  const unblock = async () => {
    if (await confirmed({ title: "Unblock this key?", act: "Unblock", text: `${name} is limited by its rules again, and by nothing else.` })) {
      await change("/keys/unblock", {}, answer => (answer.was_blocked ? "Unblocked." : "It was not blocked."));
    }
  };
  const reset = async () => {
    if (await confirmed({ title: "Reset this key?", act: "Reset", text: `What ${name} has spent is forgotten: it may spend its whole limits again.` })) {
      await change("/keys/reset", {}, resetTold);
    }
  };
  const grant = async () => {
    const extra = el("input", { type: "number", min: 1, max: 1_000_000_000, step: 1, required: true, value: 10 });
    const chosen = await confirmed({ title: "Give back some of what was spent?", act: "Give back", fields: [field("Requests", extra)], read: () => Number(extra.value),
      text: `${name} may send so many requests more before it is refused, up to its whole limits.` });
    if (chosen !== null) await change("/keys/grant", { extra: chosen }, givenBack);
  };
  return el("div", { class: "actions" },
    found.blocked_until_ms ? button("Unblock…", unblock, { class: "main" }) : button("Block…", block, { class: "grave" }),
    found.limits.length > 0 ? [button("Reset…", reset), button("Give back…", grant)] : null,
    button("Look again", again, { class: "quiet" }));
}

/** Where a block holds: storage that is shared otherwise than by a mesh shares counters alone. Peers remember it, a node alone does not. */
const reach = scope => (scope === "mesh" ? "on all nodes of the mesh" : "on this node only, unless it restarts before");

const UNMET = "No rule limits it, so only requests that bring a limit of their own are met by this.";
const SHADOW = "Shadow mode is on: until it is off, requests are counted and none is refused.";

/** Until when and where it holds, and whether it meets anybody. */
function blocked({ blocked_until_ms: until, scope, limits }) {
  const text = `Blocked; it ends ${relative(until)}, ${reach(scope)}.`;
  return limits === 0 ? [`${text} ${UNMET}`, "bad"] : text;
}

/** How many counters, and why not all of them. */
function resetTold({ reset, crowded, in_doubt: inDoubt, why: reason }) {
  const counters = number => `${exact(number)} ${number === 1 ? "counter" : "counters"}`;
  const rest = [crowded ? `not ${counters(crowded)}` : null, inDoubt ? `in part only ${counters(inDoubt)}` : null].filter(Boolean);
  if (rest.length === 0) return `Reset: ${counters(reset)}.`;
  return [`Reset: ${counters(reset)}; ${rest.join("; ")}. ${visible(reason ?? "", 300)}`, "bad"];
}

/** How much of each limit, and why it was not all of it. */
function givenBack({ limits }) {
  const whys = new Set(limits.map(each => each.why).filter(Boolean));
  const text = [`Given back: ${limits.map(each => exact(each.granted)).join(", ")}.`, ...whys].join(" ");
  return limits.every(each => each.granted === 0) ? [text, "bad"] : text;
}
