// Explain view: which rule matches a descriptor, and why others do not.

import { post, why } from "./api.js";
import { descriptorFields } from "./descriptor.js";
import { announcer, el, set, show, setText } from "./dom.js";
import { entries, line, relative, time, value, visible } from "./format.js";
import { limits, where } from "./rules.js";

export const title = "Explain";

const OUTCOMES = { taken: "taken", does_not_match: "does not match", passed_over: "matches, but another has precedence" };
const ENDS = {
  no_limit: "The matching rule has no limit: the request passes.",
  no_match: "No rule matches: the request passes.",
  unknown_domain: "No rules for this domain: the request passes.",
};

export function mount(place) {
  const fields = descriptorFields();
  const answer = el("section", { class: "panel", hidden: true, "aria-label": "The answer" });
  // The response contains each step; only the result is announced.
  const said = announcer();
  let asked = 0;
  const form = el("form", { class: "panel", "aria-label": "Which rule matches", on: { submit: async event => {
    event.preventDefault();
    set(answer, "hidden", false);
    const own = (asked += 1);
    try {
      const found = await post("/explain", fields.read());
      // A late response to an earlier request is ignored.
      if (own !== asked) return;
      show(answer, ...explanation(found));
      setText(said, sentence(found.end));
    } catch (error) {
      if (own !== asked) return;
      show(answer, el("p", { class: "bad" }, why(error)));
      setText(said, why(error));
    }
  } } }, el("p", { class: "quiet-text" }, "The entries of a descriptor, in order. Explaining spends nothing."), fields.box,
    el("div", { class: "actions" }, fields.submit("Explain")));
  show(place, el("h1", { tabindex: "-1" }, title), el("div", { class: "columns" }, form, answer), said);
  return () => {};
}

const sentence = ({ kind, rule, blocked_until_ms: until }) =>
  (until ? `Blocked; it ends ${relative(until)}. ` : "") + (rule ? `${line(rule.path)}: ${limits(rule)}` : ENDS[kind] ?? visible(kind));

function explanation(found) {
  const { end, steps } = found;
  const head = end.rule
    ? [el("h2", {}, entries(end.rule.path)), el("p", { class: "headline" }, limits(end.rule)), el("p", {}, "Written in ", el("code", {}, value(where(end.rule), 120)))]
    : [el("h2", {}, ENDS[end.kind] ?? visible(end.kind))];
  const step = one => el("li", {}, entries([one.entry]), el("ul", {}, one.considered.slice(0, 100).map(rule =>
    el("li", { class: rule.outcome }, value(rule.rule, 120), ` — ${OUTCOMES[rule.outcome] ?? visible(rule.outcome)}`))));
  const until = end.blocked_until_ms;
  const block = until ? [el("p", { class: "blocked" }, el("strong", {}, "Blocked"), " until ", time(until), ` (${relative(until)}), whatever the rule says`)] : [];
  return [...head, ...block, el("h3", {}, "Step by step"), el("ol", { class: "steps" }, steps.map(step)), el("h3", {}, "Output of hivemind explain"),
    el("pre", { tabindex: "0" }, visibleText(found.text))];
}

/** Errors in the format of the command line, if any. */
export function errorText(errors) {
  const all = [errors ?? []].flat().map(one => (typeof one === "string" ? one : JSON.stringify(one)));
  return all.length > 0 ? el("pre", { tabindex: "0" }, visibleText(all.join("\n\n"))) : null;
}

/** Multi-line text with invisible characters made visible. */
export const visibleText = text => String(text).slice(0, 100_000).split("\n").map(line => visible(line, 2_000)).join("\n");
