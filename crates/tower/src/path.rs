//! The two ways to read a path: as it came, which is how axum matches it, and decoded, which is how
//! others do. Each is looked up, or the other would be a way around: `/%6Cogin` around the limit of `/login`.

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
        match String::from_utf8(octets(segment)) {
            Ok(decoded) => text.push_str(&decoded),
            Err(_) => text.push_str(segment),
        }
    }
    (text != path).then_some(text)
}

fn octets(segment: &str) -> Vec<u8> {
    let mut bytes = segment.bytes();
    let mut octets = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        let mut after = bytes.clone();
        let octet = match (byte, after.next().and_then(digit), after.next().and_then(digit)) {
            (b'%', Some(high), Some(low)) => Some(high << 4 | low).filter(|octet| *octet != b'/'),
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
    use super::decoded;

    #[test]
    fn a_path_is_decoded_segment_by_segment_and_an_encoded_slash_is_none() {
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
