// What is seen instead of a view by somebody who has not said who they are.

import { hasToken, useToken } from "./api.js";
import { el, field, show } from "./dom.js";
import { connect, live } from "./live.js";

/** The form for the token. It is kept by the script until the page is closed or loaded anew. */
export function tokenForm(place) {
  const isWrong = live.link === "unauthorised" && hasToken();
  const input = el("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const text = live.link === "forbidden"
    ? live.reason?.message ?? "This may not be seen from here."
    : isWrong ? "That token is not the one that is set." : "This admin port asks who you are.";
  // It is forgotten at once: a wrong one is of no use.
  useToken(null);
  const form = el("form", { class: "panel token", autocomplete: "off", on: { submit: event => {
    event.preventDefault();
    useToken(input.value.trim());
    input.value = "";
    connect();
  } } },
    el("h1", {}, live.link === "forbidden" ? "Not allowed" : "Not authorised"),
    el("p", { class: isWrong ? "bad" : null, role: isWrong ? "alert" : null }, text),
    field("Admin token", input, "What is in the file of security.admin.token_file. It stays in the memory of this page: not in the address, not in a cookie, not in the browser's storage."),
    el("div", { class: "actions" }, el("button", { type: "submit", class: "main" }, "Go on")));
  show(place, form);
  input.focus();
}
