// Confirmation dialog before changes. The browser's dialog element traps the focus and restores it.

import { button, el } from "./dom.js";

/** Asks for confirmation; returns the result of `read`, or null. */
export function confirmed({ title, text, act, isGrave = false, fields = [], read = () => true }) {
  return new Promise(resolve => {
    let answer = null;
    const submit = el("button", { type: "submit", class: isGrave ? "grave" : "main" }, act);
    const cancel = button("Cancel", () => dialog.close());
    const form = el("form", { on: { submit: event => {
      event.preventDefault();
      answer = read();
      dialog.close();
    } } }, el("h2", { id: "question" }, title), el("p", { id: "question-text" }, text), fields, el("div", { class: "actions" }, submit, cancel));
    const dialog = el("dialog", { "aria-labelledby": "question", "aria-describedby": "question-text", on: { close: () => {
      dialog.remove();
      resolve(answer);
    } } }, form);
    document.body.append(dialog);
    dialog.showModal();
    // Destructive actions are not the default, so an accidental Enter does not confirm them.
    (form.querySelector("input, select") ?? (isGrave ? cancel : submit)).focus();
  });
}
