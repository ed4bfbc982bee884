//! A `ShouldRateLimit` call without I/O, from the bytes of a request to those of its response, and the codec alone.

use crate::{Case, Iteration, NOW, fixed_window};
use hivemind_envoy::testing::{FixedTimeService, decode_request, encode_request, response_writer};
use std::hint::black_box;

pub(super) const CASES: &[Case] = &[
    ("codec: read a request", || read(&[DESCRIPTOR])),
    ("codec: read a request of 4 descriptors", || read(&[DESCRIPTOR; 4])),
    ("codec: write a response", || write(false)),
    ("codec: write a response, refused", || write(true)),
    ("call: 1 descriptor", || call(&[DESCRIPTOR], OK)),
    ("call: 1 descriptor, refused", || call(&[REFUSED], OVER_LIMIT)),
    ("call: 4 descriptors", || call(&[DESCRIPTOR, PATH, DESCRIPTOR, PATH], OK)),
    ("call: 1 descriptor, a credential", || call(&[CREDENTIAL], OK)),
    ("call: no rule matches", || call(&[&[("unknown", "value")]], OK)),
];

/// Overall codes of a response.
const OK: u8 = 1;
const OVER_LIMIT: u8 = 2;

type Entries = &'static [(&'static str, &'static str)];

const DESCRIPTOR: Entries = &[("remote_address", "203.0.113.50")];
const PATH: Entries = &[("path", "/api/orders"), ("remote_address", "203.0.113.50")];
const REFUSED: Entries = &[("refused", "203.0.113.50")];
/// A value that is redacted wherever people read it.
const CREDENTIAL: Entries = &[("authorization", "Bearer 0123456789abcdef")];

const RULES: &str = "
domain: shop
descriptors:
  - key: remote_address
    rate_limit: {unit: day, requests_per_unit: 1000000000}
  - key: path
    descriptors:
      - key: remote_address
        rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: authorization
    rate_limit: {unit: day, requests_per_unit: 1000000000}
  - key: refused
    rate_limit: {unit: day, requests_per_unit: 1}
";

fn read(descriptors: &[Entries]) -> Iteration {
    let message = encode_request("shop", descriptors);
    let count = descriptors.len();
    Box::new(move || assert_eq!(decode_request(black_box(&message)), count))
}

fn write(is_over: bool) -> Iteration {
    let write = response_writer(fixed_window(1_000), is_over);
    let mut out = Vec::with_capacity(1_024);
    Box::new(move || {
        out.clear();
        write(&mut out);
        assert!(!black_box(&out).is_empty());
    })
}

/// `code` is the overall code that the response begins with.
fn call(descriptors: &[Entries], code: u8) -> Iteration {
    let service = FixedTimeService::new(RULES, NOW);
    let message = encode_request("shop", descriptors);
    let mut out = Vec::with_capacity(1_024);
    service.call(&message, &mut out);
    Box::new(move || {
        out.clear();
        service.call(black_box(&message), &mut out);
        // The first field of the response is its overall code.
        assert_eq!(black_box(&out).get(..2), Some(&[8, code][..]));
    })
}
