// Pages for visitors without authorization: token form, and access not allowed.

import { hasToken, useToken } from "./api.js";
import { button, el, field, set, show, setText } from "./dom.js";
import { connect, live } from "./live.js";

/** The token form. The script keeps the token until the page is closed or reloaded. */
export function tokenForm(place) {
  const isWrong = live.link === "unauthorised" && hasToken();
  const input = el("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const message = el("p", { class: isWrong ? "bad" : null, role: isWrong ? "alert" : null }, isWrong ? "Wrong token." : "This admin port requires authentication.");
  // Forgets a wrong token immediately.
  useToken(null);
  const form = el("form", { class: "panel token", autocomplete: "off", on: { submit: event => {
    event.preventDefault();
    const token = input.value.trim();
    input.value = "";
    // A header cannot contain other characters: the browser would fail, and the page would report an unreachable server.
    if (!/^[\x20-\x7e]+$/.test(token)) {
      set(message, "class", "bad");
      set(message, "role", "alert");
      setText(message, "Not a valid token: tokens contain only ASCII letters, digits and punctuation. It may have been changed when it was copied.");
      input.focus();
      return;
    }
    useToken(token);
    connect();
  } } },
    el("h1", {}, "Not authorised"),
    message,
    field("Admin token", input, "The content of security.admin.token_file. It is kept only in the memory of this page: not in the URL, in cookies or in browser storage."),
    el("div", { class: "actions" }, el("button", { type: "submit", class: "main" }, "Continue")));
  show(place, form);
  input.focus();
}

/** Why access is not allowed, and the remedy. Without a configured token there is nothing to enter. */
export function notAllowed(place) {
  const [host, port] = [location.hostname, location.port || (location.protocol === "https:" ? "443" : "80")];
  const again = button("Try now", connect, { class: "main" });
  show(place, el("section", { class: "panel token" },
    el("h1", { tabindex: "-1" }, "Not allowed"),
    el("p", { class: "bad", role: "alert" }, live.reason?.message ?? "Access from this address is not allowed."),
    el("p", {}, "Either set ", el("code", {}, "security.admin.token_file"), " on this node: the page then asks for the token."),
    el("p", {}, "Or let the port listen on loopback, as it does if ", el("code", {}, "server.admin_host"), " is not set, forward it to your machine, and open 127.0.0.1 at the same port:"),
    el("pre", { tabindex: "0" }, `ssh -L ${port}:127.0.0.1:${port} ${host}`),
    el("div", { class: "actions" }, again)));
  again.focus();
}
