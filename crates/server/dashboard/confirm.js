// A question before something is changed. The browser's own dialog keeps the focus inside and gives it back.

import { button, el } from "./dom.js";

/** Asks; the answer is what `read` reads of the fields, or null. */
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
    // Whoever presses Enter once too often must not have done something grave.
    (form.querySelector("input, select") ?? (isGrave ? cancel : submit)).focus();
  });
}
