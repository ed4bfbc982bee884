//! Who a request comes from, hostile headers included.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail and tell")]

mod chain;
mod oracle;
mod trust;

use http::request::Parts;

/// A request with these header lines, in their order.
fn request(lines: &[(&str, &[u8])]) -> Parts {
    let mut builder = http::Request::get("/");
    for (name, value) in lines {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap().into_parts().0
}
