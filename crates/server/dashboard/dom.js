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

/** A notice that goes away by itself, unless something failed; it is read out, without taking the focus. */
export function notify(text, kind = "good") {
  const place = document.getElementById("alerts");
  while (place.childElementCount > 3) place.firstElementChild.remove();
  const notice = el("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, text, button("×", () => notice.remove(), { class: "quiet", "aria-label": "Dismiss" }));
  place.append(notice);
  if (kind !== "bad") setTimeout(() => notice.remove(), kind === "good" ? 8_000 : 20_000);
}
