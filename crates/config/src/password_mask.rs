//! Masking of passwords in URLs. Problems show lines of configuration files, which may contain such URLs. Each
//! character is replaced by a star, so marks below the line keep their columns.

use std::borrow::Cow;

/// Replaces the passwords of URLs in `text`: `redis://user:****@host`, `unix:///run/redis.sock?pass=****`.
pub(crate) fn mask_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, from) = rest.split_at(at + 3);
        out.push_str(before);
        // Quotes and white space end a URL in YAML and TOML.
        let ends = |letter: char| letter.is_whitespace() || ['\'', '"', '`'].contains(&letter);
        let (url, after) = from.split_at(from.find(ends).unwrap_or(from.len()));
        push_masked(&mut out, url);
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn push_masked(out: &mut String, url: &str) {
    // The last `@`, because passwords may contain one without escaping.
    let (user, host) = url.rsplit_once('@').map_or((None, url), |(user, host)| (Some(user), host));
    if let Some(user) = user {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        out.push_str(name);
        if user.len() > name.len() {
            out.push(':');
        }
        out.extend(password.chars().map(|_| '*'));
        out.push('@');
    }
    let Some((path, query)) = host.split_once('?') else {
        out.push_str(host);
        return;
    };
    out.push_str(path);
    for (number, pair) in query.split('&').enumerate() {
        out.push(if number == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((key, value)) if key.starts_with("pass") => {
                out.push_str(key);
                out.push('=');
                out.extend(value.chars().map(|_| '*'));
            }
            _ => out.push_str(pair),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mask_passwords;

    #[test]
    fn password_in_url_becomes_stars() {
        for (text, expected) in [
            ("url: redis://h:6379/0, x: 1", "url: redis://h:6379/0, x: 1"),
            ("url: 'redis://u:päss@h:1' # u:p@h", "url: 'redis://u:****@h:1' # u:p@h"),
            ("[redis://:a@b@h, redis://:c@i]", "[redis://:***@h, redis://:*@i]"),
            ("unix:///run/r.sock?db=1&pass=abc&user=u", "unix:///run/r.sock?db=1&pass=***&user=u"),
            ("http://h/?password=abc", "http://h/?password=***"),
            ("http://user@h/", "http://user@h/"),
            ("a://b", "a://b"),
            ("://", "://"),
        ] {
            assert_eq!(mask_passwords(text), expected);
        }
    }
}
