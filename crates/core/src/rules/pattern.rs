//! Wildcard patterns: each `*` matches any text, including the empty one.

/// A wildcard pattern, split at its stars.
#[derive(Clone, Debug)]
pub(super) struct WildcardPattern {
    text: Box<str>,
    start: Box<str>,
    middle: Box<[Box<str>]>,
    end: Box<str>,
}

impl WildcardPattern {
    pub(super) fn new(text: &str) -> Self {
        let mut parts: Vec<Box<str>> = text.split('*').map(Into::into).collect();
        // Without a star there is one part: it is the start, and the end is empty.
        let end = if parts.len() > 1 { parts.pop().unwrap_or_default() } else { Box::default() };
        let start = parts.remove(0);
        Self { text: text.into(), start, middle: parts.into(), end }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text that a value must begin with, and the text that it must end with.
    pub(super) fn ends(&self) -> (&str, &str) {
        (&self.start, &self.end)
    }

    /// The longest of the texts between two stars; every matching value contains it.
    pub(super) fn longest_middle(&self) -> &str {
        self.middle.iter().max_by_key(|part| part.len()).map_or("", |part| part)
    }

    /// Whether at most one text is between two stars.
    pub(super) fn has_one_middle(&self) -> bool {
        self.middle.len() <= 1
    }

    /// Whether `value` begins with the first part, ends with the last, and contains the
    /// others in between, in order and without overlap.
    pub(super) fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.strip_prefix(&*self.start) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.end) else { return false };
        for part in &self.middle {
            let Some(found) = rest.find(&**part) else { return false };
            rest = rest.get(found + part.len()..).unwrap_or_default();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::WildcardPattern;

    #[test]
    fn star_matches_any_text_and_empty_text() {
        for (pattern, value, matches) in [
            ("*", "", true),
            ("*", "anything/at all", true),
            ("10.*", "10.1.2.3", true),
            ("10.*", "10.", true),
            ("10.*", "11.10.", false),
            ("*.png", "a.png", true),
            ("*.png", ".png", true),
            ("*.png", "png", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("a*b*b", "ab", false),
            ("a*b*b", "abb", true),
            ("*b*b*", "abab", true),
            ("*b*b*", "aba", false),
            ("a**c", "abc", true),
            ("*é*", "café au lait", true),
        ] {
            assert_eq!(WildcardPattern::new(pattern).matches(value), matches, "{pattern} on {value}");
        }
    }
}
