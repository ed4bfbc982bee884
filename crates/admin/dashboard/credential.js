// Detection of credentials in input fields by their format: they must not be part of a URL, because proxies log URLs.
// The server detects more formats (crates/telemetry/src/credential.rs); these are the ones that are pasted as a whole.

const SCHEME = /(^|[\s"=:])(bearer|basic|digest|negotiate|token|apikey)\s+\S/i;
const NAMED = /(api[-_]?key|authorization|cookie|jwt|passw\w*|passphrase|passcode|secret|session\w*|signature|token|\b(pass|pin|otp|totp|mfa|pwd|sid|sig))"?\s*[=:]\s*\S/i;
const USER_AND_PASSWORD = /:\/\/[^/?#\s]*:[^/?#\s]+@/;
const RUN = /[A-Za-z0-9]{16,}/g;
const ENCODED = /[A-Za-z0-9_-]{20,}/g;

const has = (text, ...classes) => classes.every(one => one.test(text));

/** Whether this text may be a credential. */
export function mayOpen(text) {
  const isUnreadable = (text.match(RUN) ?? []).some(run => has(run, /[A-Za-z]/, /[0-9]/));
  const isEncoded = (text.match(ENCODED) ?? []).some(run => has(run, /[A-Z]/, /[a-z]/, /[0-9]/));
  return isUnreadable || isEncoded || SCHEME.test(text) || NAMED.test(text) || USER_AND_PASSWORD.test(text);
}
