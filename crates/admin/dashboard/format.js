// Formatting of numbers, times and clients' values.

import { el } from "./dom.js";

const NARROW = "\u202f";
const NONE = "–";
const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const isNumber = value => typeof value === "number" && Number.isFinite(value);

/** Three significant digits: 4, 37.2, 981. */
function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  const places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : size >= 0.01 ? 3 : 4;
  return String(Number(value.toFixed(places)));
}

/** A rounded number: 12.3k. */
export function count(value) {
  if (!isNumber(value)) return NONE;
  if (Math.abs(value) < 10_000 && Number.isInteger(value)) return exact(value);
  // A value rounded up to 1000 of a unit is 1 of the next.
  for (const [size, unit] of UNITS) if (Math.abs(value) >= 0.9995 * size) return digits(value / size) + unit;
  return digits(value);
}

/** An exact number: 12 345. */
export function exact(value) {
  if (!isNumber(value)) return NONE;
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, NARROW);
}

/** A rate per second, without the unit. */
export function rate(value) {
  if (!isNumber(value)) return NONE;
  if (value > 0 && value < 0.01) return "<0.01";
  return value < 10 ? String(Number(value.toFixed(2))) : value < 100 ? String(Number(value.toFixed(1))) : count(Math.round(value));
}

/** A percentage: 12.3 %. */
export function share(part, whole) {
  if (!isNumber(part) || !isNumber(whole) || whole <= 0) return NONE;
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 0.1) return `<0.1${NARROW}%`;
  if (percent < 100 && percent > 99.9) return `>99.9${NARROW}%`;
  return `${percent.toFixed(percent < 10 || (percent > 99 && percent < 100) ? 1 : 0).replace(/\.0$/, "")}${NARROW}%`;
}

/** A short duration: 1.2 ms. */
export function millis(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1) return `${digits(value * 1_000)}${NARROW}µs`;
  if (size < SECOND) return `${digits(value)}${NARROW}ms`;
  return size < MINUTE ? `${digits(value / SECOND)}${NARROW}s` : span(value);
}

/** A long duration: 2 h 5 min. */
export function span(value) {
  if (!isNumber(value)) return NONE;
  const parts = (large, small, name, lesser) => {
    const [whole, rest] = [Math.floor(value / large), Math.floor((value % large) / small)];
    return `${whole}${NARROW}${name}${rest > 0 ? ` ${rest}${NARROW}${lesser}` : ""}`;
  };
  if (value < MINUTE) return `${Math.max(0, Math.round(value / SECOND))}${NARROW}s`;
  if (value < 10 * MINUTE) return parts(MINUTE, SECOND, "min", "s");
  if (value < HOUR) return `${Math.floor(value / MINUTE)}${NARROW}min`;
  return value < DAY ? parts(HOUR, MINUTE, "h", "min") : parts(DAY, HOUR, "d", "h");
}

let ahead = 0;

/** Times are based on the server's clock; the offset of the local clock is subtracted. */
export function keepTime(stats) {
  if (isNumber(stats?.t_ms)) ahead = stats.t_ms - Date.now();
}

export const now = () => Date.now() + ahead;

/** A time relative to now: in 3 min, 3 min ago. */
export function relative(moment, from = now()) {
  if (!isNumber(moment)) return NONE;
  const away = moment - from;
  if (Math.abs(away) < SECOND) return "now";
  return away > 0 ? `in ${span(away)}` : `${span(-away)} ago`;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** The local time of day, with the date if it is another day. */
export function clock(moment, from = Date.now()) {
  if (!isNumber(moment)) return NONE;
  const [date, today] = [new Date(moment), new Date(from)];
  const time = clockFormat.format(date);
  return date.toDateString() === today.toDateString() ? time : `${dayFormat.format(date)} ${time}`;
}

/** A time element with the UTC time in its title. */
export function time(moment, text = clock(moment)) {
  if (!isNumber(moment) || Math.abs(moment) > 8.64e15) return el("span", {}, NONE);
  const everywhere = new Date(moment).toISOString();
  return el("time", { datetime: everywhere, title: everywhere.replace("T", " ").replace("Z", " UTC") }, text);
}

/** Invisible characters, lookalikes of a space, and direction controls: keys that differ only by these must not look equal. */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
/** Combining marks; more than two on one letter do not occur in languages. */
const MARKS = /(?<=\p{M}{2})\p{M}/gu;

/** The code point as a number: many fonts lack the symbols for control characters. */
const symbol = character => `⟨${character.codePointAt(0).toString(16).toUpperCase().padStart(2, "0")}⟩`;

/** A client's value, truncated to a number of characters, with invisible characters made visible. */
export function visible(text, most = 80) {
  const given = String(text);
  // Truncates first, so that long values cost nothing.
  const characters = Array.from(given.slice(0, 2 * most + 2));
  const isCut = characters.length > most || given.length > 2 * most + 2;
  return characters.slice(0, most).join("").replace(HIDDEN, symbol).replace(MARKS, symbol) + (isCut ? "…" : "");
}

/** The value as an element isolated from the surrounding text direction, with a longer form in the title. */
export function value(text, most = 80) {
  const shown = visible(text, most);
  const more = visible(text, 600);
  const length = String(text).length;
  const title = shown === String(text) ? null : length > 600 ? `${more} (${exact(length)} characters)` : more;
  if (shown === "") return el("span", { class: "quiet-text" }, "(empty)");
  return el("bdi", { class: "value", title }, shown);
}

/** A descriptor: `user=alice · path=/x`. */
export function entries(list, most = 60) {
  const parts = (list ?? []).slice(0, 12).map(entry =>
    el("span", { class: "entry" }, el("span", { class: "entry-key" }, value(entry.key, 40)),
      entry.value === null || entry.value === undefined ? null : ["=", value(entry.value, most)]));
  if ((list ?? []).length > 12) parts.push(el("span", { class: "quiet-text" }, `and ${list.length - 12} more`));
  return el("span", { class: "entries" }, parts.length > 0 ? parts : el("span", { class: "quiet-text" }, "(no entries)"));
}

/** A descriptor as one line of text, for labels and dialogs. */
export function line(list, most = 40) {
  const all = list ?? [];
  const named = all.slice(0, 6).map(entry => `${visible(entry.key, most)}=${visible(entry.value ?? "*", most)}`).join(", ");
  return all.length > 6 ? `${named} and ${all.length - 6} more` : named;
}

const PERIODS = [[SECOND, "second"], [MINUTE, "minute"], [HOUR, "hour"], [DAY, "day"], [7 * DAY, "week"], [30 * DAY, "month"], [365 * DAY, "year"]];

/** A limit as text: 100 per minute. */
export function limit(one) {
  const known = PERIODS.find(([length]) => length === one.period_ms)?.[1];
  const period = known ?? span(one.period_ms);
  const often = one.algorithm === "sliding_window" ? `in any ${period}` : `per ${period}`;
  const burst = one.algorithm === "token_bucket" && isNumber(one.burst) ? `, ${exact(one.burst)} at once` : "";
  return `${exact(one.requests)} ${often}${burst}`;
}
