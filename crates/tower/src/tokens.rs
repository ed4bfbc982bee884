//! Token lists in headers, such as `Connection: keep-alive, Upgrade`.
//!
//! The limiter and the server that forwards upgrades use the same parser: a request that only one of them takes
//! for an upgrade would bypass a limit.
//!
//! ```
//! use http::{HeaderMap, header::CONNECTION};
//! use hivemind_tower::tokens::has_token;
//!
//! let headers: HeaderMap = [(CONNECTION, "keep-alive, Upgrade".parse()?)].into_iter().collect();
//! assert!(has_token(&headers, &CONNECTION, "upgrade"));
//! # Ok::<(), http::header::InvalidHeaderValue>(())
//! ```

use http::header::{HeaderMap, HeaderName};

/// Whether a line of a header contains this token, ignoring case.
///
/// ```
/// use http::{HeaderMap, header::CONNECTION};
/// use hivemind_tower::tokens::has_token;
///
/// let headers: HeaderMap = [(CONNECTION, "upgrades".parse()?)].into_iter().collect();
/// assert!(!has_token(&headers, &CONNECTION, "upgrade")); // Another token.
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[must_use]
pub fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let lines = headers.get_all(name).iter();
    let mut tokens = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    tokens.any(|of| of.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::CONNECTION;

    #[test]
    fn token_is_found_in_any_line_and_case_and_only_whole() {
        let has = |lines: &[&'static str]| {
            let lines = lines.iter().map(|line| (CONNECTION, HeaderValue::from_static(line)));
            has_token(&lines.collect(), &CONNECTION, "upgrade")
        };
        for lines in [&["upgrade"][..], &["keep-alive,\tUpGrade "], &["a", "b, upgrade,, c"]] {
            assert!(has(lines), "{lines:?}");
        }
        for lines in [&[][..], &[""], &["upgrades"], &["x upgrade"], &["upgrade;q=1"], &["\"upgrade\""]] {
            assert!(!has(lines), "{lines:?}");
        }
    }
}
