//! The two ways to read a path: as it came, which is how axum matches it, and decoded, which is how
//! others do. Each is looked up, or the other would be a way around: `/%6Cogin` around the limit of `/login`.
//!
//! ```
//! use hivemind_tower::path::{folded, has_dot_segments};
//!
//! assert_eq!(folded("/x/..//%6Cogin/").as_deref(), Some("/login"));
//! assert!(has_dot_segments("/x/%2e%2e/login"));
//! ```

/// The path with what is percent-encoded in its segments decoded; none if that changes nothing. A slash
/// that is encoded stays so, because it is part of its segment; and so does a segment that would be no text.
pub(crate) fn decoded(path: &str) -> Option<String> {
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

/// A path as it may be read by whoever is most forgiving: everything decoded, slashes too; several slashes
/// as one, dot segments resolved, what follows a semicolon in a segment and a slash at the end left out.
/// None if that changes nothing. Nobody reads all of it so; but who does any of it must not be a way around.
///
/// ```
/// use hivemind_tower::path::folded;
///
/// assert_eq!(folded("/login"), None); // There is one way to read it.
/// assert_eq!(folded("/login;v=1").as_deref(), Some("/login"));
/// ```
#[must_use]
pub fn folded(path: &str) -> Option<String> {
    let odd = |pair: &[u8]| matches!(pair, b"//" | b"/.") || matches!(pair, [b'%' | b';' | b'\\', _]);
    let ends_odd = path.len() > 1 && path.ends_with(['/', ';', '\\', '%']);
    if !ends_odd && !path.as_bytes().windows(2).any(odd) {
        return None;
    }
    // What is no text is read as some letter or other: one such octet must not leave the rest encoded.
    let octets = octets(path, false);
    let decoded = String::from_utf8_lossy(&octets);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let folded = format!("/{}", segments.join("/"));
    (folded != path).then_some(folded)
}

/// Whether a path has `.` or `..` for a segment, by any of the readings that [`folded`] knows of.
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
        matches!(name, b"." | b"..")
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
    use super::{decoded, folded};

    #[test]
    fn a_path_is_folded_as_the_most_forgiving_server_reads_it() {
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
            ("/%6Cogin", Some("/login")),
            ("/.well-known", None),
            ("/100%", None),
            ("/public/%ff", Some("/public/\u{fffd}")),
            ("/public/%ff/%2e%2e/%2e%2e/login", Some("/login")),
            ("/%c3/..%2flogin", Some("/login")),
            ("/x%ff%2f..%2Flogin", Some("/login")),
        ] {
            assert_eq!(folded(path).as_deref(), read, "{path}");
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
            assert_eq!(decoded(path).as_deref(), read, "{path}");
        }
    }
}
