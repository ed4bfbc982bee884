// What is seen instead of a view by somebody who has not said who they are, or may not see it from where they are.

import { hasToken, useToken } from "./api.js";
import { button, el, field, set, show, tell } from "./dom.js";
import { connect, live } from "./live.js";

/** The form for the token. It is kept by the script until the page is closed or loaded anew. */
export function tokenForm(place) {
  const isWrong = live.link === "unauthorised" && hasToken();
  const input = el("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const told = el("p", { class: isWrong ? "bad" : null, role: isWrong ? "alert" : null }, isWrong ? "That token is not the one that is set." : "This admin port asks who you are.");
  // It is forgotten at once: a wrong one is of no use.
  useToken(null);
  const form = el("form", { class: "panel token", autocomplete: "off", on: { submit: event => {
    event.preventDefault();
    const token = input.value.trim();
    input.value = "";
    // A header holds nothing else: the browser would not even ask, and the page would say that the server is away.
    if (!/^[\x20-\x7e]+$/.test(token)) {
      set(told, "class", "bad");
      set(told, "role", "alert");
      tell(told, "That is no token: a token has letters, digits and signs of ASCII only. It may have been changed where it was copied from.");
      input.focus();
      return;
    }
    useToken(token);
    connect();
  } } },
    el("h1", {}, "Not authorised"),
    told,
    field("Admin token", input, "What is in the file of security.admin.token_file. It stays in the memory of this page: not in the address, not in a cookie, not in the browser's storage."),
    el("div", { class: "actions" }, el("button", { type: "submit", class: "main" }, "Go on")));
  show(place, form);
  input.focus();
}

/** Why nothing is shown here, and what can be done about it. There is nothing to type: no token is set. */
export function notAllowed(place) {
  const [host, port] = [location.hostname, location.port || (location.protocol === "https:" ? "443" : "80")];
  const again = button("Try now", connect, { class: "main" });
  show(place, el("section", { class: "panel token" },
    el("h1", { tabindex: "-1" }, "Not allowed"),
    el("p", { class: "bad", role: "alert" }, live.reason?.message ?? "This may not be seen from here."),
    el("p", {}, "Either set ", el("code", {}, "security.admin.token_file"), " on this node: the page then asks for the token."),
    el("p", {}, "Or let the port listen on loopback, as it does where ", el("code", {}, "server.admin_host"), " is not set, bring it to your machine, and open 127.0.0.1 there, at the same port:"),
    el("pre", { tabindex: "0" }, `ssh -L ${port}:127.0.0.1:${port} ${host}`),
    el("div", { class: "actions" }, again)));
  again.focus();
}
