// DOM helpers. Text always becomes text nodes, so clients' values are never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Creates an element with attributes, listeners (`on`) and children; `null` and `false` are skipped. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Like `el`, for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  node.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return node;
}

/** Sets or removes an attribute, if it differs. */
export function set(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** Sets the text, if it differs, so that screen readers and selections keep their place. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replaces the children. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
}

const kept = new WeakMap();

/** Rebuilds the children only if the data changed, so that selection, scroll position and focus are kept. */
export function keep(node, data, make) {
  const text = JSON.stringify(data);
  if (kept.get(node) === text) return;
  kept.set(node, text);
  show(node, make());
}

/** A status line for screen readers that summarizes a large change. */
export const announcer = () => el("p", { class: "hidden", role: "status" });

/** Marks a control as busy. It is not disabled, because that would remove the focus. */
export function busy(control, isBusy) {
  set(control, "aria-disabled", isBusy ? "true" : null);
}

export const isBusy = control => control.getAttribute("aria-disabled") === "true";

/** Shows or hides a control. If it had the focus, the focus moves to `next`. */
export function hide(control, isHidden, next) {
  if (isHidden && control === document.activeElement) next.focus({ preventScroll: true });
  set(control, "hidden", isHidden);
}

/** A labelled field. */
export function field(label, control, hint) {
  const id = control.id || `field-${(fields += 1)}`;
  control.id = id;
  const help = hint && el("small", { id: `${id}-hint` }, hint);
  if (help) set(control, "aria-describedby", help.id);
  return el("div", { class: "field" }, el("label", { for: id }, label), control, help);
}

let fields = 0;

export function button(text, act, attributes = {}) {
  return el("button", { type: "button", ...attributes, on: { click: act } }, text);
}

/** A select element with options `[value, text]`. */
export function choice(options, chosen) {
  return el("select", {}, options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
}

/** The element that had the focus before the notices. */
let cameFrom = null;

/** Shows a notice, which closes by itself unless it is an error. It is announced without taking the focus. */
export function notify(text, kind = "good") {
  const place = document.getElementById("alerts");
  while (place.childElementCount > 3) dismiss(place.firstElementChild);
  const notice = el("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null, on: { focusin: event => {
    if (event.relatedTarget && !place.contains(event.relatedTarget)) cameFrom = event.relatedTarget;
  } } }, text, button("×", () => dismiss(notice), { class: "quiet", "aria-label": "Dismiss" }));
  place.append(notice);
  if (kind !== "bad") setTimeout(() => dismiss(notice), kind === "good" ? 8_000 : 20_000);
}

/** Closes a notice. If it had the focus, the previous element gets it back. */
function dismiss(notice) {
  const isWithin = notice.contains(document.activeElement);
  notice.remove();
  if (isWithin) (cameFrom?.isConnected ? cameFrom : document.querySelector("h1"))?.focus({ preventScroll: true });
}
