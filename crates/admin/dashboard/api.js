// Client of the admin API. The token is only in a variable of this module: not in URLs, not in browser storage.

let token = null;
const watchers = new Set();

/** An error response of the API, with its problem details. */
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

/** Called with a `Refused` for unauthorized requests. */
export function onUnauthorised(watcher) {
  watchers.add(watcher);
}

/** Request timeout. The server itself ends requests after 30 seconds. */
const LONGEST_MS = 35_000;

/** Sends a request and returns the response unread; throws error responses. Only event streams have no timeout. */
export async function ask(path, { method = "GET", body, signal: given, isEndless = false } = {}) {
  const signals = [given, isEndless ? null : AbortSignal.timeout(LONGEST_MS)].filter(Boolean);
  const signal = AbortSignal.any(signals);
  const headers = { Accept: "application/json" };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  // Responses contain clients' values and must not be stored on disk.
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(`/api/v1${path}`, { method, headers, body: sent, signal, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" });
  if (answer.ok) return answer;
  const refused = new Refused(answer.status, await problemOf(answer), answer.headers.get("Retry-After"));
  if (answer.status === 401) for (const watcher of watchers) watcher(refused);
  throw refused;
}

/** Sends a request and returns the JSON of the response. */
export async function get(path, options) {
  return (await ask(path, options)).json();
}

export const post = (path, body = {}) => get(path, { method: "POST", body });
export const put = (path, body) => get(path, { method: "PUT", body });

/** A query string of the parameters that are set. */
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

/** The error as a sentence. */
export function why(error) {
  if (error instanceof Refused) return error.message;
  if (error?.name === "TimeoutError") return "The server did not respond within 35 seconds. Each open dashboard holds a connection, and browsers limit them: close some.";
  return "The server does not respond.";
}
