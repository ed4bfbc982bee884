//! Glob patterns of `include`, as in nginx: `*`, `?` and `[a-z]`, sorted.

use std::path::{Component, Path, PathBuf};

/// The files that match a pattern. A pattern without wildcards is returned as it is, even if the file does not exist.
pub(super) fn files(pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = match part {
            Component::Normal(name) => name.to_str().filter(|name| name.contains(['*', '?', '['])),
            _ => None,
        };
        let Some(name) = name else {
            for path in &mut found {
                path.push(part);
            }
            continue;
        };
        let mut next = Vec::new();
        for folder in &found {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            // nginx ignores a missing folder in a pattern.
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            for entry in entries {
                let entry = entry?.file_name();
                let matches =
                    |entry: &str| !entry.starts_with('.') && is_match(&pieces(name), &letters(entry));
                if entry.to_str().is_some_and(matches) {
                    next.push(folder.join(entry));
                }
            }
        }
        next.sort();
        found = next;
    }
    Ok(found)
}

fn letters(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// A part of a pattern.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Any,
    One,
    Letter(char),
    /// One letter that is in one of the ranges, or in none if inverse.
    Class {
        is_inverse: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Piece {
    fn fits(&self, letter: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Letter(of) => *of == letter,
            Self::Class { is_inverse, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter)) != *is_inverse
            }
        }
    }
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let letters = letters(pattern);
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(letter) = letters.get(at) {
        at += 1;
        pieces.push(match letter {
            '*' => Piece::Any,
            '?' => Piece::One,
            '[' => match class(letters.get(at..).unwrap_or_default()) {
                Some((class, length)) => {
                    at += length;
                    class
                }
                None => Piece::Letter('['),
            },
            other => Piece::Letter(*other),
        });
    }
    pieces
}

/// Parses the class after an opening bracket, and returns its length; `None` if it is not closed. A closing bracket
/// in first position is a letter of the class.
fn class(letters: &[char]) -> Option<(Piece, usize)> {
    let is_inverse = matches!(letters.first(), Some('!' | '^'));
    let from = usize::from(is_inverse);
    let end = from + 1 + letters.get(from + 1..)?.iter().position(|letter| *letter == ']')?;
    let mut within = letters.get(from..end)?;
    let mut ranges = Vec::new();
    while let Some((&first, rest)) = within.split_first() {
        if let ['-', last, rest @ ..] = rest {
            ranges.push((first, *last));
            within = rest;
        } else {
            ranges.push((first, first));
            within = rest;
        }
    }
    Some((Piece::Class { is_inverse, ranges }, end + 1))
}

fn is_match(pattern: &[Piece], name: &[char]) -> bool {
    // Backtracks only to the last star, so it needs no recursion.
    let (mut p, mut n, mut star) = (0, 0, None);
    while let Some(letter) = name.get(n) {
        match pattern.get(p) {
            Some(Piece::Any) => {
                star = Some((p, n));
                p += 1;
            }
            Some(of) if of.fits(*letter) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|piece| *piece == Piece::Any)
}

#[cfg(test)]
mod tests {
    use super::{is_match, letters, pieces};

    // Fails when classes are read as letters.
    #[test]
    fn glob_pattern_matches_names_as_nginx() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xbxxa", false),
            ("*", "", true),
            ("[0-9]*.conf", "10-a.conf", true),
            ("[0-9]*.conf", "a.conf", false),
            ("[!0-9]*.conf", "a.conf", true),
            ("[^a]b", "ab", false),
            ("x[abc-]", "x-", true),
            ("x[]a]", "x]", true),
            ("x[a", "x[a", true),
            ("x[", "x[", true),
            ("*[ab]c", "xaxbc", true),
        ] {
            assert_eq!(is_match(&pieces(pattern), &letters(name)), expected, "{pattern} {name}");
        }
    }
}
