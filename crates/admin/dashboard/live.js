// Live data by server-sent events, read with `fetch` because an EventSource cannot send a token.

import { ask, get, Refused } from "./api.js";

/** After this silence the connection counts as dead. The server sends something each second. */
const SILENCE_MS = 6_000;
const BACKOFF_MS = [300, 600, 1_200, 2_500, 5_000, 10_000];
/** A connection that lasted this long resets the backoff. */
const ALIVE_MS = 10_000;
/** Browsers limit connections per host, so hidden pages disconnect after this time. */
const UNSEEN_MS = 30_000;
/** Maximum size of an event. */
const LONGEST_EVENT = 8 << 20;

/** The last event of each kind, and the connection state: connecting, live, lost, unauthorised or forbidden. */
export const live = { link: "connecting", since: Date.now(), reason: null, stats: null, peers: null, top: null, config: null, version: null };

const KINDS = ["stats", "peers", "top", "config", "version"];

const listeners = new Map();
let attempt = 0;
let running = null;
let timer = null;
let rest = null;
/** Kinds of events received on this connection. */
let received = new Set();

/** Registers a listener for events of a kind; returns a function that removes it. */
export function on(kind, listener) {
  const all = listeners.get(kind) ?? listeners.set(kind, new Set()).get(kind);
  all.add(listener);
  return () => all.delete(listener);
}

/** Registers a listener for changed rules; configuration events have many other causes. */
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
  // The start of the outage is the last live moment, not the last failed attempt.
  if (link === "connecting" && live.link === "lost") return;
  if (live.link !== link) live.since = Date.now();
  live.link = link;
  live.reason = reason;
  emit("link");
}

/** Connects, or reconnects immediately. */
export function connect() {
  clearTimeout(timer);
  running?.abort();
  running = new AbortController();
  received = new Set();
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
  // Retrying cannot help: the host name must be changed or allowed.
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

/** Parser of event streams: `event:` and `data:` lines, terminated by an empty line. */
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
  let event;
  try {
    event = JSON.parse(data);
  } catch {
    return;
  }
  const isAnother = kind === "version" && live.version && (live.version.started_ms !== event.started_ms || live.version.node !== event.node);
  live[kind] = event;
  received.add(kind);
  if (live.link !== "live") become("live");
  if (Date.now() - live.since > ALIVE_MS) attempt = 0;
  if (isAnother) forgetOther();
  emit(kind);
}

/** Drops the data of the previous process after another one has responded. */
function forgetOther() {
  for (const kind of KINDS.filter(each => live[each] !== null && !received.has(each))) {
    live[kind] = null;
    emit(kind);
  }
}

/** Requests data that is rarely sent as an event. */
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
