//! Client identification, including hostile headers.

#![expect(clippy::unwrap_used, reason = "test helpers panic with a message")]

mod chain;
mod oracle;
mod trust;

use http::request::Parts;

/// A request with these header lines, in order.
fn request(lines: &[(&str, &[u8])]) -> Parts {
    let mut builder = http::Request::get("/");
    for (name, value) in lines {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap().into_parts().0
}
