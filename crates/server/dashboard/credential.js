// What somebody may have typed that opens something, by its looks: it is not put into an address, which is what proxies write down.
// The server knows more of them (crates/telemetry/src/credential.rs); here are those that are pasted whole.

const SCHEME = /(^|[\s"=:])(bearer|basic|digest|negotiate|token|apikey)\s+\S/i;
const NAMED = /(api[-_]?key|authorization|cookie|jwt|passw\w*|passphrase|passcode|secret|session\w*|signature|token|\b(pass|pin|otp|totp|mfa|pwd|sid|sig))"?\s*[=:]\s*\S/i;
const USER_AND_PASSWORD = /:\/\/[^/?#\s]*:[^/?#\s]+@/;
const RUN = /[A-Za-z0-9]{16,}/g;
const ENCODED = /[A-Za-z0-9_-]{20,}/g;

const has = (text, ...classes) => classes.every(one => one.test(text));

/** Whether this text may open something. */
export function mayOpen(text) {
  const isUnreadable = (text.match(RUN) ?? []).some(run => has(run, /[A-Za-z]/, /[0-9]/));
  const isEncoded = (text.match(ENCODED) ?? []).some(run => has(run, /[A-Z]/, /[a-z]/, /[0-9]/));
  return isUnreadable || isEncoded || SCHEME.test(text) || NAMED.test(text) || USER_AND_PASSWORD.test(text);
}
