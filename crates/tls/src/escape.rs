//! Escaping of untrusted text before it is printed to a terminal or a log.

/// Characters that are invisible or look like others: ignorable ones, joiners and direction marks, line
/// separators, look-alikes of the space, and characters without an agreed shape. Two keys that differ only by
/// these would look the same.
const UNSEEN: [(char, char); 41] = [
    ('\u{a0}', '\u{a0}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2000}', '\u{200f}'),
    ('\u{2028}', '\u{202f}'),
    ('\u{205f}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{fffe}', '\u{ffff}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{1fffe}', '\u{1ffff}'),
    ('\u{2fffe}', '\u{2ffff}'),
    ('\u{3fffe}', '\u{3ffff}'),
    ('\u{4fffe}', '\u{dffff}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{e1000}', '\u{effff}'),
    ('\u{f0000}', '\u{fffff}'),
    ('\u{100000}', '\u{10fffd}'),
    ('\u{10fffe}', '\u{10ffff}'),
];
/// Combining marks, which may stack without an end.
const MARKS: [(char, char); 7] = [
    ('\u{300}', '\u{36f}'),
    ('\u{483}', '\u{489}'),
    ('\u{591}', '\u{5bd}'),
    ('\u{1ab0}', '\u{1aff}'),
    ('\u{1dc0}', '\u{1dff}'),
    ('\u{20d0}', '\u{20ff}'),
    ('\u{fe20}', '\u{fe2f}'),
];
/// No language stacks more of them on one letter.
const MOST_MARKS: u32 = 2;

fn is_in(ranges: &[(char, char)], c: char) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// Whether `c` is displayed, and at its place.
fn is_shown(c: char) -> bool {
    c.is_ascii_graphic() || c == ' ' || !(c.is_control() || is_in(&UNSEEN, c))
}

/// Each character, or its replacement.
fn each(text: &str) -> impl Iterator<Item = char> {
    let mut marks = 0;
    text.chars().map(move |c| {
        marks = if !c.is_ascii() && is_in(&MARKS, c) { marks + 1 } else { 0 };
        if c == '\n' || (is_shown(c) && marks <= MOST_MARKS) { c } else { '?' }
    })
}

/// Escapes `text` to one line of at most `longest` characters.
pub fn escape_line(text: &str, longest: usize) -> String {
    let mut chars = each(text).map(|c| if c == '\n' { '?' } else { c });
    let mut shown: String = chars.by_ref().take(longest).collect();
    if chars.next().is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// Escapes `text` and keeps its line breaks.
pub fn escape_lines(text: &str) -> String {
    each(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when right-to-left marks pass.
    #[test]
    fn control_and_direction_characters_are_escaped() {
        assert_eq!(escape_line("a\u{1b}[2J\r\nb\u{202e}c\u{7}", 80), "a?[2J??b?c?");
        assert_eq!(escape_line("abcdef", 6), "abcdef");
        assert_eq!(escape_line("abcdefg", 6), "abcde…");
        assert_eq!(escape_lines("a\nb\r\u{2066}"), "a\nb??");
    }

    // Fails when only direction marks are escaped.
    #[test]
    fn texts_that_differ_look_different() {
        for unseen in [
            '\u{200b}',
            '\u{200d}',
            '\u{34f}',
            '\u{115f}',
            '\u{3164}',
            '\u{180e}',
            '\u{fe0f}',
            '\u{e0041}',
            '\u{2800}',
            '\u{a0}',
            '\u{61c}',
            '\u{feff}',
            '\u{2028}',
            '\u{2029}',
            '\u{ad}',
            '\u{2060}',
            '\u{e000}',
            '\u{10ffff}',
        ] {
            assert_eq!(escape_line(&format!("ada{unseen}"), 80), "ada?", "{:x}", u32::from(unseen));
        }
        for seen in ["ada", "é", "e\u{301}", "名前", "имя", "\u{5d0}\u{5b8}", "ß – “x” €", "🦀"]
        {
            assert_eq!(escape_line(seen, 80), seen);
        }
        assert_eq!(escape_line("a\u{301}\u{302}\u{303}\u{304}b\u{301}", 80), "a\u{301}\u{302}??b\u{301}");
        let in_order = UNSEEN.windows(2).all(|pair| pair[0].1 < pair[1].0);
        assert!(in_order && UNSEEN.iter().chain(&MARKS).all(|(first, last)| first <= last));
    }
}
