// SHA-256 of a searched value, in the form in which the server displays credentials. URLs are logged by proxies, and any
// value may be a password. Browsers offer SHA-256 only to https pages, so it is implemented here.

const SHOWN = /^sha256:[0-9a-f]{16}$/;

/** The first bits of the roots of the first primes: square roots for the initial state, cube roots for the rounds. */
const PRIMES = Array.from({ length: 312 }, (_, number) => number).filter(number => number > 1 && Array.from({ length: number }, (_, by) => by).every(by => by < 2 || number % by !== 0)).slice(0, 64);
const fraction = root => Math.floor((root - Math.floor(root)) * 2 ** 32);
const BEGIN = PRIMES.slice(0, 8).map(prime => fraction(Math.sqrt(prime)));
const ROUNDS = PRIMES.map(prime => fraction(Math.cbrt(prime)));

const turned = (word, by) => (word >>> by) | (word << (32 - by));

/** The words of a padded message. */
function padded(bytes) {
  const words = new Uint32Array(((bytes.length + 8) >> 6) * 16 + 16);
  [...bytes, 0x80].forEach((byte, at) => (words[at >> 2] |= byte << (24 - 8 * (at % 4))));
  words[words.length - 2] = Math.floor(bytes.length / 2 ** 29);
  words[words.length - 1] = bytes.length << 3;
  return words;
}

function digest(bytes) {
  const words = padded(bytes);
  const state = Uint32Array.from(BEGIN);
  const all = new Uint32Array(64);
  for (let block = 0; block < words.length; block += 16) {
    all.set(words.subarray(block, block + 16));
    for (let at = 16; at < 64; at += 1) {
      const [early, late] = [all[at - 15], all[at - 2]];
      all[at] = all[at - 16] + all[at - 7] + (turned(early, 7) ^ turned(early, 18) ^ (early >>> 3)) + (turned(late, 17) ^ turned(late, 19) ^ (late >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let at = 0; at < 64; at += 1) {
      const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[at] + all[at]) | 0;
      const second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
    }
    [a, b, c, d, e, f, g, h].forEach((word, at) => (state[at] += word));
  }
  return state;
}

/** `sha256:` and 16 digits; an empty value and an existing hash stay unchanged. */
export function hashed(text) {
  if (text === "" || SHOWN.test(text)) return text;
  const [first, second] = digest(new TextEncoder().encode(text));
  return `sha256:${[first, second].map(word => word.toString(16).padStart(8, "0")).join("")}`;
}
