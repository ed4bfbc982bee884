// Elements out of data. Text becomes text nodes and nothing else: what a client sent is never read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`on`) and children; `null` and `false` are left out. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same, of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  node.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return node;
}

/** Sets an attribute, or takes it away; what is so already is left alone. */
export function set(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** Changes a text only where it differs: readers of screens and selections stay where they are. */
export function tell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Puts these children in the place of the old ones. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
}

const kept = new WeakMap();

/** Builds a place anew only where there is something else to tell: what is selected, scrolled to or focused in it stays. */
export function keep(node, told, make) {
  const text = JSON.stringify(told);
  if (kept.get(node) === text) return;
  kept.set(node, text);
  show(node, make());
}

/** A sentence for those who listen: what changed, where all of it would be too much to be read out. */
export const announcer = () => el("p", { class: "hidden", role: "status" });

/** A control that is busy. It is not disabled, because that would take the focus from whoever has just pressed it. */
export function busy(control, isBusy) {
  set(control, "aria-disabled", isBusy ? "true" : null);
}

export const isBusy = control => control.getAttribute("aria-disabled") === "true";

/** Hides a control, or shows it; who was at it goes on at `next`, and does not fall back to the top of the page. */
export function hide(control, isHidden, next) {
  if (isHidden && control === document.activeElement) next.focus({ preventScroll: true });
  set(control, "hidden", isHidden);
}

/** A labelled field. */
export function field(label, control, hint) {
  const id = control.id || `field-${(fields += 1)}`;
  control.id = id;
  const told = hint && el("small", { id: `${id}-hint` }, hint);
  if (told) set(control, "aria-describedby", told.id);
  return el("div", { class: "field" }, el("label", { for: id }, label), control, told);
}

let fields = 0;

export function button(text, act, attributes = {}) {
  return el("button", { type: "button", ...attributes, on: { click: act } }, text);
}

/** A choice among `[value, text]`. */
export function choice(options, chosen) {
  return el("select", {}, options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
}

/** Where somebody was before they went to the notices. */
let cameFrom = null;

/** A notice that goes away by itself, unless something failed; it is read out, without taking the focus. */
export function notify(text, kind = "good") {
  const place = document.getElementById("alerts");
  while (place.childElementCount > 3) dismiss(place.firstElementChild);
  const notice = el("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null, on: { focusin: event => {
    if (event.relatedTarget && !place.contains(event.relatedTarget)) cameFrom = event.relatedTarget;
  } } }, text, button("×", () => dismiss(notice), { class: "quiet", "aria-label": "Dismiss" }));
  place.append(notice);
  if (kind !== "bad") setTimeout(() => dismiss(notice), kind === "good" ? 8_000 : 20_000);
}

/** Takes a notice away; who was at it is back where they came from. */
function dismiss(notice) {
  const isWithin = notice.contains(document.activeElement);
  notice.remove();
  if (isWithin) (cameFrom?.isConnected ? cameFrom : document.querySelector("h1"))?.focus({ preventScroll: true });
}
