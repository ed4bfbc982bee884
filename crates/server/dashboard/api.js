// The admin API. The token is a variable of this module and nowhere else: not in an address, not in what a browser keeps.

let token = null;
const watchers = new Set();

/** What the API refused, as its problem details say it. */
export class Refused extends Error {
  constructor(status, problem, retryAfter = null) {
    super(problem.detail || problem.title || `The answer was ${status}.`);
    this.status = status;
    this.title = problem.title ?? `Status ${status}`;
    this.problem = problem;
    this.retryAfterMs = /^\d{1,5}$/.test(retryAfter ?? "") ? 1_000 * Number(retryAfter) : 0;
  }
}

export const hasToken = () => token !== null;

export function useToken(text) {
  token = text;
}

/** Is called with a `Refused` for whoever asks without the right to. */
export function onUnauthorised(watcher) {
  watchers.add(watcher);
}

/** Nobody waits longer; the server itself ends what takes 30 seconds. */
const LONGEST_MS = 35_000;

/** Asks, and leaves the answer unread; refusals are thrown. Only what is endless may take as long as it likes. */
export async function ask(path, { method = "GET", body, signal: given, isEndless = false } = {}) {
  const signals = [given, isEndless ? null : AbortSignal.timeout(LONGEST_MS)].filter(Boolean);
  const signal = AbortSignal.any(signals);
  const headers = { Accept: "application/json" };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  // What clients sent is not for the browser to keep on a disk.
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(`/api/v1${path}`, { method, headers, body: sent, signal, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" });
  if (answer.ok) return answer;
  const refused = new Refused(answer.status, await problemOf(answer), answer.headers.get("Retry-After"));
  if (answer.status === 401) for (const watcher of watchers) watcher(refused);
  throw refused;
}

/** The answer's JSON. */
export async function get(path, options) {
  return (await ask(path, options)).json();
}

export const post = (path, body = {}) => get(path, { method: "POST", body });
export const put = (path, body) => get(path, { method: "PUT", body });

/** A query of what is set. */
export function query(parameters) {
  const set = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return set.length === 0 ? "" : `?${new URLSearchParams(set)}`;
}

async function problemOf(answer) {
  try {
    const problem = await answer.json();
    return typeof problem === "object" && problem !== null ? problem : {};
  } catch {
    return {};
  }
}

/** Why something failed, in a sentence. */
export function why(error) {
  if (error instanceof Refused) return error.message;
  if (error?.name === "TimeoutError") return "The server has not answered within 35 seconds. Each open dashboard of it holds a connection, and a browser has few: close some.";
  return "The server does not answer.";
}
