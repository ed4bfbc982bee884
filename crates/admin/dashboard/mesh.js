// Mesh view: members, state of each peer, and held allowance.

import { post, why } from "./api.js";
import { confirmed } from "./confirm.js";
import { button, el, notify, show, setText } from "./dom.js";
import { count, exact, millis, value, visible } from "./format.js";
import { fresh, live, on } from "./live.js";
import { map } from "./map.js";
import { once, table } from "./table.js";

export const title = "Mesh";

export function mount(place) {
  const summary = el("p", { class: "headline" }, "Loading…");
  const drawing = map();
  const peers = peersTable();
  const drawn = el("section", { class: "panel" }, drawing.box);
  const listed = el("section", { class: "panel" }, peers.box);
  show(place, el("h1", { tabindex: "-1" }, title), summary, drawn, listed);

  const update = () => {
    if (document.hidden || !(live.peers || (live.version && live.version.storage !== "mesh"))) return;
    const all = live.peers?.peers ?? [];
    const isMesh = all.length > 0 || live.version?.storage === "mesh";
    drawn.hidden = listed.hidden = !isMesh;
    setText(summary, isMesh ? sentence(all) : "This node is not part of a mesh: its limits are not shared with peers.");
    drawing.draw(live.version?.node ?? "this node", all);
    peers.update(all);
  };
  update();
  fresh("peers", "/peers").catch(error => setText(summary, why(error)));
  const ends = [on("peers", update), on("version", update)];
  return () => ends.forEach(end => end());
}

function sentence(all) {
  const lost = all.filter(peer => peer.state !== "alive");
  if (all.length === 0) return "No known peers yet.";
  if (lost.length === 0) return all.length === 1 ? "The one peer is alive." : `All ${all.length} peers are alive.`;
  const names = lost.slice(0, 3).map(peer => `${visible(peer.name, 40)} (${peer.state})`).join(", ");
  return `${lost.length} of ${all.length} peers ${lost.length === 1 ? "is" : "are"} not alive: ${names}${lost.length > 3 ? " and others" : ""}.`;
}

const KINDS = { alive: "good", suspect: "warn", dead: "bad", quarantined: "bad" };

function peersTable() {
  const number = (head, cell) => ({ head, class: "number", cell });
  return table({ caption: "Peers", empty: "No known peers yet.", keyOf: peer => peer.name, columns: [
    { head: "Peer", cell: once(peer => value(peer.name, 40)) },
    { head: "State", cell: peer => el("span", { class: `tag ${KINDS[peer.state] ?? ""}` }, peer.state) },
    { head: "Member", cell: peer => (peer.member ? "yes" : "no") },
    number("Silent for", peer => millis(peer.staleness_ms)),
    number("Round trip", peer => millis(peer.rtt_ms)),
    number("Clock offset", peer => millis(peer.clock_offset_ms)),
    number("Rights held", peer => exact(peer.rights_held)),
    number("In", peer => `${count(peer.bytes_in)}B`),
    number("Out", peer => `${count(peer.bytes_out)}B`),
    { head: "By", cell: peer => peer.transport ?? "–" },
    { head: "Address", cell: peer => peer.address },
    { head: "", name: "Actions", cell: (peer, cell) => forgetCell(peer, cell) },
  ] });
}

/** Only a dead peer can be forgotten. */
function forgetCell(peer, cell) {
  if (peer.state !== "dead") return "";
  if (cell.firstElementChild) return undefined;
  return button("Forget…", async () => {
    const text = `${visible(peer.name)} is given up for good: what it held counts as spent, and it is asked no more. Do this only if it will not come back.`;
    if (!(await confirmed({ title: "Forget this peer?", act: "Forget", isGrave: true, text }))) return;
    try {
      await post(`/peers/${encodeURIComponent(peer.name)}/forget`);
      notify(`${visible(peer.name)} is given up.`);
      // Its row and button will be removed.
      document.querySelector("h1")?.focus();
    } catch (error) {
      notify(why(error), "bad");
    }
  }, { "aria-label": `Forget ${visible(peer.name)}` });
}
