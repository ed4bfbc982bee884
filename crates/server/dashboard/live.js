// What the server tells by itself: server-sent events, read with `fetch` because an EventSource sends no token.

import { ask, get, Refused } from "./api.js";

/** Nothing for so long: the link is dead, whatever the socket says. The server says something each second. */
const SILENCE_MS = 6_000;
const BACKOFF_MS = [300, 600, 1_200, 2_500, 5_000, 10_000];
/** Only who lived so long has a new run of tries. */
const ALIVE_MS = 10_000;
/** A browser has few connections for one host: who is not seen for so long lets go of theirs. */
const UNSEEN_MS = 30_000;
/** No event is longer. */
const LONGEST_EVENT = 8 << 20;

/** The last of each kind, and how the link is: connecting, live, lost, unauthorised or forbidden. */
export const live = { link: "connecting", since: Date.now(), reason: null, stats: null, peers: null, top: null, config: null, version: null };

const KINDS = ["stats", "peers", "top", "config", "version"];

const listeners = new Map();
let attempt = 0;
let running = null;
let timer = null;
let rest = null;
/** What was told on this connection. */
let heard = new Set();

/** Calls back on each event of a kind; the answer ends it. */
export function on(kind, listener) {
  const all = listeners.get(kind) ?? listeners.set(kind, new Set()).get(kind);
  all.add(listener);
  return () => all.delete(listener);
}

/** Calls back when other rules are in force; of the configuration much else is told. */
export function onRules(listener) {
  let seen = live.config?.rules?.loaded_ms;
  return on("config", config => {
    const loaded = config?.rules?.loaded_ms;
    if (loaded === seen) return;
    seen = loaded;
    listener();
  });
}

function emit(kind) {
  for (const listener of [...(listeners.get(kind) ?? [])]) listener(live[kind]);
}

function become(link, reason = null) {
  // It is lost since it was last live, not since the last try failed.
  if (link === "connecting" && live.link === "lost") return;
  if (live.link !== link) live.since = Date.now();
  live.link = link;
  live.reason = reason;
  emit("link");
}

/** Begins, or begins anew at once. */
export function connect() {
  clearTimeout(timer);
  running?.abort();
  running = new AbortController();
  heard = new Set();
  listen(running);
}

async function listen(controller) {
  become("connecting");
  const parser = new Parser();
  let watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
  try {
    const answer = await ask("/events", { signal: controller.signal, isEndless: true });
    for await (const text of chunks(answer.body)) {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
      parser.feed(text);
    }
    throw new Error("the stream ended");
  } catch (error) {
    if (running !== controller) return;
    lost(error);
  } finally {
    clearTimeout(watchdog);
  }
}

function lost(error) {
  if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
    become(error.status === 401 ? "unauthorised" : "forbidden", error);
    return;
  }
  become("lost", error instanceof Refused ? error.message : null);
  // By that name it will never answer: somebody has to come by another, or allow it.
  if (error instanceof Refused && error.status === 421) return;
  const wait = Math.max(BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)], error.retryAfterMs ?? 0);
  attempt += 1;
  timer = setTimeout(connect, wait * (1 + 0.2 * Math.random()));
}

async function* chunks(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) yield value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Lines into events: `event:` and `data:`, ended by an empty line. */
class Parser {
  rest = "";
  kind = "message";
  data = [];

  feed(text) {
    this.rest += text;
    if (this.rest.length > LONGEST_EVENT) throw new Error("an event without an end");
    const lines = this.rest.split("\n");
    this.rest = lines.pop();
    for (const line of lines) this.line(line.replace(/\r$/, ""));
  }

  line(line) {
    if (line === "") {
      if (this.data.length > 0) take(this.kind, this.data.join("\n"));
      this.kind = "message";
      this.data = [];
      return;
    }
    const [, name, text] = line.match(/^([^:]*)(?:: ?(.*))?$/s);
    if (name === "event") this.kind = text;
    if (name === "data") this.data.push(text);
  }
}

function take(kind, data) {
  if (!KINDS.includes(kind)) return;
  let told;
  try {
    told = JSON.parse(data);
  } catch {
    return;
  }
  const isAnother = kind === "version" && live.version && (live.version.started_ms !== told.started_ms || live.version.node !== told.node);
  live[kind] = told;
  heard.add(kind);
  if (live.link !== "live") become("live");
  if (Date.now() - live.since > ALIVE_MS) attempt = 0;
  if (isAnother) forgetOther();
  emit(kind);
}

/** Another process answers: what the one before it said is nobody's. */
function forgetOther() {
  for (const kind of KINDS.filter(each => live[each] !== null && !heard.has(each))) {
    live[kind] = null;
    emit(kind);
  }
}

/** Asks for something that is told seldom. */
export async function fresh(kind, path) {
  live[kind] = await get(path);
  emit(kind);
  return live[kind];
}

addEventListener("online", () => live.link === "lost" && connect());
addEventListener("visibilitychange", () => {
  clearTimeout(rest);
  if (document.hidden) {
    rest = setTimeout(letGo, UNSEEN_MS);
  } else if (running === null || live.link === "lost") {
    connect();
  }
});

function letGo() {
  if (live.link === "unauthorised" || live.link === "forbidden") return;
  clearTimeout(timer);
  const controller = running;
  running = null;
  controller?.abort();
}
