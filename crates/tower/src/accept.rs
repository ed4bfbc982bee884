//! Content negotiation of refusals: text or JSON, by the `Accept` header.

use http::HeaderMap;
use http::header::ACCEPT;

/// Whether the client prefers plain text to JSON. The default is JSON.
pub(crate) fn prefers_text(request: &HeaderMap) -> bool {
    let Some(accept) = request.get(ACCEPT).and_then(|value| value.to_str().ok()) else { return false };
    if accept == "*/*" {
        return false; // Most clients other than browsers send this.
    }
    let text = quality(accept, &["text/plain", "text/*", "*/*"]);
    let problem = quality(accept, &["application/problem+json", "application/*", "*/*"]);
    text > problem.max(quality(accept, &["application/json"]))
}

/// The quality of the most specific of these ranges that is named, in thousandths (RFC 9110, 12.5.1).
fn quality(accept: &str, ranges: &[&str]) -> u32 {
    let of_range = |range: &&str| {
        accept.split(',').find_map(|item| {
            let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
            name.trim().eq_ignore_ascii_case(range).then(|| thousandths(parameters))
        })
    };
    ranges.iter().find_map(of_range).unwrap_or(0)
}

fn thousandths(parameters: &str) -> u32 {
    let quality = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
    match quality.map(str::trim) {
        Some(text) if text.starts_with('0') => {
            let digits = text.strip_prefix("0.").unwrap_or_default().chars().chain("000".chars());
            digits.take(3).filter_map(|digit| digit.to_digit(10)).fold(0, |sum, digit| sum * 10 + digit)
        }
        _ => 1_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn accept_header_selects_text_or_json() {
        for (accept, text) in [
            ("text/plain", true),
            ("text/*", true),
            ("TEXT/PLAIN;charset=utf-8", true),
            ("*/*", false),
            ("", false),
            ("application/json", false),
            ("application/problem+json, text/plain;q=0.9", false),
            ("application/json;q=0.5, text/plain", true),
            ("application/json;q=0.25, text/plain;q=0.3", true),
            ("text/plain;q=0, */*", false),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false),
            ("text/plain;q=nonsense", true),
        ] {
            let headers = [(ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
            assert_eq!(prefers_text(&headers), text, "{accept}");
        }
        assert!(!prefers_text(&HeaderMap::new()));
    }
}
