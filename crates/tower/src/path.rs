//! Path readings: the path as sent, with decoded segments, and normalized.
//!
//! axum matches the path as sent; other servers decode it first. Each reading is looked up, since otherwise
//! `/%6Cogin` would bypass the limit of `/login`.
//!
//! ```
//! use hivemind_tower::path::{normalize, has_dot_segments};
//!
//! assert_eq!(normalize("/x/..//%6Cogin/").as_deref(), Some("/login"));
//! assert!(has_dot_segments("/x/%2e%2e/login"));
//! ```

/// Decodes percent-encoding within the segments of a path; `None` if that changes nothing. An encoded slash
/// stays encoded, because it is part of its segment, and so does a segment that is not UTF-8.
pub(crate) fn decode_segments(path: &str) -> Option<String> {
    if !path.contains('%') {
        return None;
    }
    let mut text = String::with_capacity(path.len());
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            text.push('/');
        }
        match String::from_utf8(octets(segment, true)) {
            Ok(decoded) => text.push_str(&decoded),
            Err(_) => text.push_str(segment),
        }
    }
    (text != path).then_some(text)
}

/// Normalizes a path like the most lenient server: decodes everything including slashes, merges repeated
/// slashes, resolves dot segments, cuts the path at a NUL, and removes path parameters, dots and whitespace at the
/// end of a segment, and a trailing slash. `None` if that changes nothing. Hardly any server does all of it, but a
/// spelling that any server accepts must not bypass a limit.
///
/// ```
/// use hivemind_tower::path::normalize;
///
/// assert_eq!(normalize("/login"), None); // It has only one reading.
/// assert_eq!(normalize("/login;v=1").as_deref(), Some("/login"));
/// assert_eq!(normalize("/login.").as_deref(), Some("/login")); // As Windows reads names.
/// ```
#[must_use]
pub fn normalize(path: &str) -> Option<String> {
    let odd = |pair: &[u8]| matches!(pair, b"//" | b"/." | b"./") || matches!(pair, [b'%' | b';' | b'\\', _]);
    let ends_odd = path.len() > 1 && path.ends_with(['/', ';', '\\', '%', '.']);
    if !ends_odd && !path.as_bytes().windows(2).any(odd) {
        return None;
    }
    // Octets that are not UTF-8 are replaced, so that one of them does not leave the rest encoded.
    let octets = octets(path, false);
    let decoded = String::from_utf8_lossy(&octets);
    // A C string ends at a NUL.
    let decoded = decoded.split('\0').next().unwrap_or_default();
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        let name = segment.split(';').next().unwrap_or_default().trim_end();
        match name.trim_end_matches(is_dropped_at_the_end) {
            _ if name == ".." => drop(segments.pop()),
            "" => {}
            name => segments.push(name),
        }
    }
    let normalized = format!("/{}", segments.join("/"));
    (normalized != path).then_some(normalized)
}

/// Windows drops dots and spaces at the end of a name; a regular expression may match before a line break there.
fn is_dropped_at_the_end(letter: char) -> bool {
    letter == '.' || letter.is_whitespace()
}

/// Whether a path has a `.` or `..` segment in any reading that [`normalize`] considers.
///
/// ```
/// use hivemind_tower::path::has_dot_segments;
///
/// assert!(has_dot_segments("/files/%2e%2e/secret") && !has_dot_segments("/files/a..b"));
/// ```
#[must_use]
pub fn has_dot_segments(path: &str) -> bool {
    let odd = |pair: &[u8]| matches!(pair, [b'/' | b'\\', b'.'] | [b'%', _]);
    if !path.as_bytes().windows(2).any(odd) {
        return false;
    }
    let octets = octets(path, false);
    let mut segments = octets.split(|octet| matches!(octet, b'/' | b'\\'));
    segments.any(|segment| {
        let name = segment.split(|octet| *octet == b';').next().unwrap_or_default();
        matches!(name.trim_ascii_end(), b"." | b"..")
    })
}

fn octets(segment: &str, keeps_slashes: bool) -> Vec<u8> {
    let mut bytes = segment.bytes();
    let mut octets = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        let mut after = bytes.clone();
        let octet = match (byte, after.next().and_then(digit), after.next().and_then(digit)) {
            (b'%', Some(high), Some(low)) => {
                Some(high << 4 | low).filter(|octet| *octet != b'/' || !keeps_slashes)
            }
            _ => None,
        };
        if octet.is_some() {
            bytes = after;
        }
        octets.push(octet.unwrap_or(byte));
    }
    octets
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::{decode_segments, normalize};

    #[test]
    fn path_is_normalized_like_the_most_lenient_server() {
        for (path, read) in [
            ("/", None),
            ("/login", None),
            ("/a.b/c..d", None),
            ("*", None),
            ("/login/", Some("/login")),
            ("//login", Some("/login")),
            ("/./login", Some("/login")),
            ("/x/../login", Some("/login")),
            ("/../../login", Some("/login")),
            ("/%2e%2E/login", Some("/login")),
            ("/x%2f..%2Flogin", Some("/login")),
            ("/x\\..\\login", Some("/login")),
            ("/login;v=1", Some("/login")),
            ("/login.", Some("/login")),
            ("/login...", Some("/login")),
            ("/login./", Some("/login")),
            ("/login%20", Some("/login")),
            ("/login%20.%20", Some("/login")),
            ("/login%0a", Some("/login")),
            ("/login%09;v=1", Some("/login")),
            ("/login%00", Some("/login")),
            ("/login%00.html", Some("/login")),
            ("/users./me%20", Some("/users/me")),
            ("/x/..%20/login", Some("/login")),
            ("/a%20b", Some("/a b")),
            ("/%6Cogin", Some("/login")),
            ("/.well-known", None),
            ("/100%", None),
            ("/public/%ff", Some("/public/\u{fffd}")),
            ("/public/%ff/%2e%2e/%2e%2e/login", Some("/login")),
            ("/%c3/..%2flogin", Some("/login")),
            ("/x%ff%2f..%2Flogin", Some("/login")),
        ] {
            assert_eq!(normalize(path).as_deref(), read, "{path}");
        }
    }

    #[test]
    fn path_is_decoded_by_segment_except_encoded_slashes() {
        for (path, read) in [
            ("/login", None),
            ("/%6Cogin", Some("/login")),
            ("/%6cog%69n", Some("/login")),
            ("/a%20b%", Some("/a b%")),
            ("/%zz%4", None),
            ("/%C3%A4", Some("/ä")),
            ("/%FF", None),
            ("/%FF/%61", Some("/%FF/a")),
            ("/a%2Fb", None),
            ("/%61%2fb", Some("/a%2fb")),
            ("/%252F", Some("/%2F")),
        ] {
            assert_eq!(decode_segments(path).as_deref(), read, "{path}");
        }
    }
}
